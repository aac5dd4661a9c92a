// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "capstan/observe/profiler.hpp"
#include "core/extras/observe/recorded_steps.hpp"
#include "core/extras/observe/recording.hpp"
#include "core/extras/observe/statistics.hpp"

namespace capstan {

OperationProfile profile_of(const Recording& recording, const StoredOperation& operation);

/// The state that the copies of a profiler share.
struct ProfilerState {
  explicit ProfilerState(const ProfilerOptions& options)
      : recording(options.capacity, options.file), steps(options.steps) {}

  void record(const Measurement& measurement, std::span<const StepMeasurement> of_it) noexcept;

  std::atomic<std::uint64_t> lost = 0;

  mutable std::mutex mutex;  ///< of all below
  Recording recording;
  RecordedSteps steps;
  ProfileGroups groups;
};

}  // namespace capstan
