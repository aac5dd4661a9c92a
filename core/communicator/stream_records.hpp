// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "capstan/observe/profiler.hpp"
#include "core/communicator/kernel_work.hpp"

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

/// Calls by kernels that are to be recorded when they have ended, with their times on the device.
/// A thread of the process asks for these, as a driver may not answer for long. Thread-safe.
class StreamRecords : public std::enable_shared_from_this<StreamRecords> {
 public:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    std::shared_ptr<const KernelEnd> end{};
    SharedEvent begins{};  ///< before the kernel
    Clock::time_point put = Clock::now();
    std::string_view operation{};
    Bytes bytes{};
    std::string way{};
    std::shared_ptr<const StreamProfile> profile{};
  };

  /// In the order of the calls. Throws SystemError if there can be no thread.
  void add(Entry entry);
  /// Whether all have been recorded.
  bool empty() const;
  /// Forgets what has not been recorded.
  void clear();

 private:
  /// The end of a call that was recorded, by both clocks.
  struct Recorded {
    SharedEvent end{};
    Clock::time_point time{};
  };
  bool record_ended();
  Recorded record(const Entry& entry, bool failed) const;

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const Entry>> entries_;
  Recorded last_;
  bool asks_ = false;  ///< a thread asks for the first one now and then
};

}  // namespace capstan
