#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "capstan/observe/profiler.hpp"
#include "core/observe/recording.hpp"
#include "core/observe/statistics.hpp"

namespace capstan {

OperationProfile profile_of(const Recording& recording, const StoredOperation& operation);

/// What the copies of a profiler share.
struct ProfilerState {
  explicit ProfilerState(const ProfilerOptions& options)
      : recording(options.capacity, options.file) {}

  void record(const Measurement& measurement) noexcept;

  std::atomic<std::uint64_t> lost = 0;

  mutable std::mutex mutex;  ///< of all below
  Recording recording;
  ProfileGroups groups;
};

}  // namespace capstan
