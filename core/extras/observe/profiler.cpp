// SPDX-License-Identifier: Apache-2.0
#include "capstan/observe/profiler.hpp"

#include <algorithm>

#include "core/extras/observe/profiler_state.hpp"
#include "core/extras/observe/times.hpp"

namespace capstan {
namespace {}  // namespace

void ProfilerState::record(const Measurement& measurement,
                           std::span<const StepMeasurement> of_it) noexcept {
  const StoredOperation operation{
      .bytes = measurement.bytes.value(),
      .began = nanoseconds(measurement.began),
      .ended = nanoseconds(std::max(measurement.began, measurement.ended)),
      .ranks = measurement.ranks,
      .rank = measurement.rank,
      .operation = recording.number_of(measurement.operation),
      .algorithm = recording.number_of(measurement.algorithm),
      .tag = recording.number_of(measurement.tag),
      .failed = measurement.failed};
  groups.add(operation);
  recording.append(operation);
  if (!of_it.empty()) steps.append(operation, recording.written(), of_it, recording);
}

OperationProfile profile_of(const Recording& recording, const StoredOperation& operation) {
  return {.operation = std::string{recording.name(operation.operation)},
          .bytes = Bytes{operation.bytes},
          .duration = operation.duration(),
          .bandwidth = bandwidth_of(Bytes{operation.bytes}, operation.duration()),
          .ranks = operation.ranks,
          .algorithm = std::string{recording.name(operation.algorithm)},
          .began = recording.system_time(operation.began),
          .timestamp = recording.system_time(operation.ended),
          .rank = operation.rank,
          .tag = std::string{recording.name(operation.tag)},
          .failed = operation.failed != 0,
          .index = operation.number - recording.forgotten() - 1};
}

Profiler::Profiler(const ProfilerOptions& options)
    : state_(options.enabled ? std::make_shared<ProfilerState>(options) : nullptr) {}

void Profiler::record(const Measurement& measurement) noexcept {
  record(measurement, {});
}

void Profiler::record(const Measurement& measurement,
                      std::span<const StepMeasurement> steps) noexcept {
  if (!enabled()) return;
  const std::lock_guard lock{state_->mutex};
  state_->record(measurement, steps);
}

std::vector<StepProfile> Profiler::steps() const {
  if (!enabled()) return {};
  const std::lock_guard lock{state_->mutex};
  return state_->steps.profiles(state_->recording);
}

std::size_t Profiler::step_capacity() const {
  return enabled() ? state_->steps.capacity() : 0;
}

std::string_view Profiler::kept(std::string_view name) const noexcept {
  const std::lock_guard lock{state_->mutex};
  return state_->recording.name(state_->recording.number_of(name));
}

void Profiler::lose() noexcept {
  state_->lost.fetch_add(1, std::memory_order_relaxed);
}

Work Profiler::end_with(const Pending& pending, Work work) {
  try {
    work.on_complete([begun = pending](const Work& ended) mutable {
      begun.end(ended.is_cancelled() || ended.error() != nullptr);
    });
  } catch (...) {  // no memory for the callback
    Pending{pending}.lose();
  }
  return work;
}

std::vector<OperationProfile> Profiler::profiles() const {
  std::vector<OperationProfile> profiles;
  if (!enabled()) return profiles;
  const std::lock_guard lock{state_->mutex};
  for (const StoredOperation& operation : state_->recording.stored())
    profiles.push_back(profile_of(state_->recording, operation));
  return profiles;
}

std::vector<OperationProfile> read_profiles(const std::string& file) {
  const Recording recording = Recording::open(file);
  std::vector<OperationProfile> profiles;
  recording.for_each([&](const StoredOperation& operation) {
    profiles.push_back(profile_of(recording, operation));
  });
  return profiles;
}

ProfileStatistics Profiler::statistics() const {
  if (!enabled()) return {};
  const std::lock_guard lock{state_->mutex};
  ProfileSums all{};
  for (const auto& group : state_->groups.all()) all.add(group.sums);
  return statistics_of(all, state_->recording.stored());
}

std::vector<ProfileGroup> Profiler::groups() const {
  std::vector<ProfileGroup> groups;
  if (!enabled()) return groups;
  const std::lock_guard lock{state_->mutex};
  const auto stored = state_->recording.stored();
  for (const auto& group : state_->groups.all()) {
    auto own = stored;
    std::erase_if(own, [&](const StoredOperation& each) { return !group.includes(each); });
    groups.push_back({std::string{state_->recording.name(group.operation)},
                      std::string{state_->recording.name(group.algorithm)},
                      statistics_of(group.sums, own)});
  }
  return groups;
}

std::uint64_t Profiler::lost() const {
  return enabled() ? state_->lost.load(std::memory_order_relaxed) : 0;
}

void Profiler::clear() {
  if (!enabled()) return;
  const std::lock_guard lock{state_->mutex};
  state_->recording.clear();
  state_->steps.clear();
  state_->groups.clear();
  state_->lost.store(0, std::memory_order_relaxed);
}

}  // namespace capstan
