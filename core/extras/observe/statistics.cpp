// SPDX-License-Identifier: Apache-2.0
#include "core/extras/observe/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace capstan {
namespace {

constexpr double kib = 1024;

/// Number ceil(q / 100 · n) of `values`, which it reorders.
double percentile(std::vector<double>& values, double q) {
  const auto number =
      static_cast<std::size_t>(std::ceil(q / 100 * static_cast<double>(values.size())));
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(number, 1) - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

Percentiles percentiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  return {percentile(values, 50), percentile(values, 90), percentile(values, 99)};
}

}  // namespace

double bandwidth_of(Bytes bytes, std::chrono::nanoseconds duration) {
  if (duration.count() == 0) return 0;
  constexpr double mib_per_second = 1e9 / kib / kib;  // of bytes in a nanosecond
  return static_cast<double>(bytes.value()) * mib_per_second /
         static_cast<double>(duration.count());
}

std::string OperationProfile::to_string() const {
  return fmt::format("{} ({}): {:.2f} MB, {:.2f} ms, {:.2f} MB/s, {} ranks", operation, algorithm,
                     static_cast<double>(bytes.value()) / kib / kib,
                     std::chrono::duration<double, std::milli>(duration).count(), bandwidth, ranks);
}

std::string ProfileStatistics::to_string() const {
  return fmt::format(
      "Total Operations: {}, Total Data: {:.2f} GB, Total Time: {:.2f} s, Avg Bandwidth: {:.2f} "
      "MB/s",
      operations, static_cast<double>(bytes.value()) / kib / kib / kib, time.count() / 1000,
      average_bandwidth);
}

void ProfileSums::add(const StoredOperation& operation) noexcept {
  if (operation.failed) return static_cast<void>(++failures);
  ++count;
  bytes += operation.bytes;
  nanoseconds += static_cast<std::uint64_t>(operation.duration().count());
  const double one = bandwidth_of(Bytes{operation.bytes}, operation.duration());
  bandwidth += one;
  least = std::min(least, one);
  greatest = std::max(greatest, one);
}

void ProfileSums::add(const ProfileSums& other) noexcept {
  count += other.count;
  failures += other.failures;
  bytes += other.bytes;
  nanoseconds += other.nanoseconds;
  bandwidth += other.bandwidth;
  least = std::min(least, other.least);
  greatest = std::max(greatest, other.greatest);
}

void ProfileGroups::add(const StoredOperation& operation) noexcept {
  group_of(operation.operation, operation.algorithm).sums.add(operation);
}

ProfileGroups::Group& ProfileGroups::group_of(Recording::Name operation,
                                              Recording::Name algorithm) noexcept {
  const auto mixed = (std::uint64_t{operation} << 16 | algorithm) * 0x9e37'79b9'7f4a'7c15;
  std::size_t place = mixed >> 54;  // 10 bits
  for (; places_[place] != 0; place = (place + 1) % places_.size()) {
    Group& known = groups_[places_[place] - 1U];
    if (known.operation == operation && known.algorithm == algorithm) return known;
  }
  constexpr Recording::Name other = Recording::other_names;
  if (groups_.size() >= most && (operation != other || algorithm != other))
    return group_of(other, other);
  groups_.push_back({operation, algorithm});
  places_[place] = static_cast<std::uint16_t>(groups_.size());
  return groups_.back();
}

void ProfileGroups::clear() noexcept {
  groups_.clear();
  places_ = {};
}

ProfileStatistics statistics_of(const ProfileSums& sums,
                                const std::vector<StoredOperation>& stored) {
  ProfileStatistics result;
  result.failures = sums.failures;
  if (sums.count == 0) return result;
  result.operations = sums.count;
  result.bytes = Bytes{sums.bytes};
  result.time = std::chrono::duration<double, std::nano>(static_cast<double>(sums.nanoseconds));
  result.average_bandwidth = sums.bandwidth / static_cast<double>(sums.count);
  result.least_bandwidth = sums.least;
  result.greatest_bandwidth = sums.greatest;
  std::vector<double> durations, bandwidths;
  for (const StoredOperation& each : stored) {
    if (each.failed) continue;
    durations.push_back(std::chrono::duration<double, std::milli>(each.duration()).count());
    bandwidths.push_back(bandwidth_of(Bytes{each.bytes}, each.duration()));
  }
  result.duration = percentiles_of(std::move(durations));
  result.bandwidth = percentiles_of(std::move(bandwidths));
  return result;
}

}  // namespace capstan
