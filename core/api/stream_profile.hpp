#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "capstan/observe/profiler.hpp"
#include "capstan/quantity.hpp"

namespace capstan {

/// Records calls in streams of devices with a profiler. Thread-safe.
class StreamProfile {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `rank`: in the world.
  StreamProfile(Profiler profiler, int rank, int ranks, std::string tag)
      : profiler_(std::move(profiler)), rank_(rank), ranks_(ranks), tag_(std::move(tag)) {}

  struct Record {
    std::string_view operation{};
    Bytes bytes{};
    std::string_view way{};  ///< which way its data went, and by which algorithm
    Time began{}, ended{};
    bool failed = false;
  };
  void record(const Record& call) const noexcept {
    Profiler{profiler_}.record({.operation = call.operation,
                                .bytes = call.bytes,
                                .began = call.began,
                                .ended = call.ended,
                                .ranks = ranks_,
                                .algorithm = call.way,
                                .rank = rank_,
                                .tag = tag_,
                                .failed = call.failed});
  }

 private:
  const Profiler profiler_;
  const int rank_, ranks_;
  const std::string tag_;
};

}  // namespace capstan
