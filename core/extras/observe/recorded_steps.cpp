// SPDX-License-Identifier: Apache-2.0
#include "core/extras/observe/recorded_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "capstan/error.hpp"
#include "core/extras/observe/times.hpp"

namespace capstan {
namespace {}  // namespace

RecordedSteps::RecordedSteps(std::size_t capacity) : capacity_(capacity) {
  if (capacity > Recording::most_operations)
    throw InvalidArgument(fmt::format("a profiler of {} steps: it stores {} at most", capacity,
                                      Recording::most_operations));
  try {
    ring_.resize(capacity);
  } catch (const std::bad_alloc&) {
    throw SystemError(
        fmt::format("no memory for {} steps: let the profiler store fewer", capacity));
  }
}

void RecordedSteps::append(const StoredOperation& operation, std::uint64_t number,
                           std::span<const StepMeasurement> steps, Recording& recording) noexcept {
  for (const StepMeasurement& step : steps.last(std::min(steps.size(), capacity_)))
    ring_[written_++ % capacity_] = {.operation = number,
                                     .bytes = step.bytes.value(),
                                     .block = step.block,
                                     .began = nanoseconds(step.began),
                                     .ended = nanoseconds(step.ended),
                                     .peer = step.peer,
                                     .rank = operation.rank,
                                     .number = step.number,
                                     .step = recording.number_of(step.step),
                                     .tag = operation.tag};
}

StepProfile RecordedSteps::profile_of(const Stored& stored, const Recording& recording) {
  return {.step = std::string{recording.name(stored.step)},
          .peer = stored.peer,
          .bytes = Bytes{stored.bytes},
          .block = stored.block,
          .number = stored.number,
          .began = recording.system_time(stored.began),
          .duration = std::chrono::nanoseconds{stored.ended - stored.began},
          .rank = stored.rank,
          .tag = std::string{recording.name(stored.tag)},
          .operation = stored.operation - recording.forgotten() - 1};
}

std::vector<StepProfile> RecordedSteps::profiles(const Recording& recording) const {
  std::vector<StepProfile> profiles;
  const std::uint64_t stored = std::min<std::uint64_t>(written_, capacity_);
  for (std::uint64_t i = written_ - stored; i < written_; ++i)
    profiles.push_back(profile_of(ring_[i % capacity_], recording));
  return profiles;
}

}  // namespace capstan
