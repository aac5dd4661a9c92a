#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "capstan/observe/profiler.hpp"
#include "core/observe/recording.hpp"
#include "core/observe/statistics.hpp"

namespace capstan {

/// What the copies of a profiler share.
struct ProfilerState {
  explicit ProfilerState(const ProfilerOptions& options) : recording(options.capacity) {}

  void record(const Measurement& measurement) noexcept;
  /// The operations that are stored, the oldest first; under the lock.
  std::vector<StoredOperation> stored() const;
  OperationProfile profile_of(const StoredOperation& operation) const;

  std::atomic<std::uint64_t> lost = 0;

  mutable std::mutex mutex;  ///< of all below
  Recording recording;
  ProfileGroups groups;
};

}  // namespace capstan
