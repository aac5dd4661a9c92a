// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "capstan/observe/profiler.hpp"

namespace capstan {

/// Records calls in streams of devices with a profiler. Thread-safe.
class StreamProfile {
 public:
  /// `rank`: in the world.
  StreamProfile(Profiler profiler, int rank, int ranks, std::string tag)
      : profiler_(std::move(profiler)), rank_(rank), ranks_(ranks), tag_(std::move(tag)) {}

  /// Adds the ranks and the tag. In the algorithm's place: which way the data went, and by which
  /// algorithm.
  void record(Measurement call) const noexcept {
    call.ranks = ranks_;
    call.rank = rank_;
    call.tag = tag_;
    Profiler{profiler_}.record(call);
  }

 private:
  const Profiler profiler_;
  const int rank_, ranks_;
  const std::string tag_;
};

}  // namespace capstan
