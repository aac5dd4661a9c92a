// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/measured_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace capstan {
namespace {

auto order(const MeasuredCell& cell) {
  return std::tuple{cell.collective, cell.ranks, cell.hosts, cell.bytes};
}

bool same_kind(const MeasuredCell& a, const MeasuredCell& b) {
  return a.collective == b.collective && a.ranks == b.ranks && a.hosts == b.hosts;
}

double logarithm(Bytes bytes) {
  return std::log2(std::max(1.0, static_cast<double>(bytes.value())));
}

/// Times are compared by their logarithms in whole steps, so that all ranks come to the same
/// order, whichever mathematical library they have.
void sort(std::vector<MeasuredWay>& ways) {
  constexpr double steps_per_doubling = 1024;
  std::ranges::stable_sort(ways, {}, [](const MeasuredWay& way) {
    return std::llround(std::log2(std::max(way.nanoseconds, 1.0)) * steps_per_doubling);
  });
}

/// A way that was measured at the size of `cell` alone, at a size whose fastest way takes `best`.
/// It is taken to grow as the fastest does, and counts less the farther away that size is.
MeasuredWay at_one_end(MeasuredWay way, const MeasuredCell& cell, double best, double distance) {
  way.nanoseconds *= best / cell.ways.front().nanoseconds * (1 + distance);
  return way;
}

const MeasuredWay* find(const MeasuredCell& cell, const MeasuredWay& way) {
  const auto found = std::ranges::find_if(
      cell.ways, [&](const MeasuredWay& each) { return each.is_same_way(way); });
  return found == cell.ways.end() ? nullptr : &*found;
}

/// The times at `bytes`, between two cells with ways.
MeasuredCell between(const MeasuredCell& low, const MeasuredCell& high, Bytes bytes) {
  const double share =
      (logarithm(bytes) - logarithm(low.bytes)) / (logarithm(high.bytes) - logarithm(low.bytes));
  const auto mean = [share](double at_low, double at_high) {
    return std::pow(at_low, 1 - share) * std::pow(at_high, share);
  };
  const double best = mean(low.ways.front().nanoseconds, high.ways.front().nanoseconds);
  MeasuredCell cell{low.collective, low.ranks, low.hosts, bytes,
                    std::min(low.confidence, high.confidence)};
  cell.disturbed = low.disturbed || high.disturbed;
  for (const MeasuredWay& way : low.ways) {
    const MeasuredWay* const other = find(high, way);
    cell.ways.push_back(other ? way : at_one_end(way, low, best, share));
    if (!other) continue;
    cell.ways.back().nanoseconds = mean(way.nanoseconds, other->nanoseconds);
    cell.ways.back().spread = std::max(way.spread, other->spread);
  }
  for (const MeasuredWay& way : high.ways)
    if (!find(low, way)) cell.ways.push_back(at_one_end(way, high, best, 1 - share));
  sort(cell.ways);
  return cell;
}

}  // namespace

std::string name_of(const MeasuredWay& way) {
  const std::string name = full_name(way.algorithm->name, way.protocol);
  return way.times_shorter > 1 ? fmt::format("{}/{}", name, way.times_shorter) : name;
}

double least_ratio(const MeasuredWay& slow, const MeasuredWay& fast) {
  const double least = slow.nanoseconds * (1 - slow.spread / 2),
               most = fast.nanoseconds * (1 + fast.spread / 2);
  return least / most;
}

std::string MeasuredCell::doubt() const {
  if (ways.empty() || decides()) return "";
  if (disturbed) return "the machine was busy when it was measured";
  return fmt::format("confidence {:.0f} %, below {:.0f} %", 100 * confidence,
                     100 * least_confidence);
}

void MeasuredTimes::add(MeasuredCell cell) {
  std::erase_if(cell.ways, [](const MeasuredWay& way) { return !(way.nanoseconds > 0); });
  if (cell.ways.empty()) return;
  sort(cell.ways);
  const auto place = std::ranges::lower_bound(cells_, order(cell), {}, order);
  if (place != cells_.end() && order(*place) == order(cell))
    *place = std::move(cell);
  else
    cells_.insert(place, std::move(cell));
}

MeasuredCell MeasuredTimes::at(Collective collective, int ranks, int hosts, Bytes bytes) const {
  constexpr std::uint64_t beyond = 4;
  MeasuredCell wanted{collective, ranks, hosts, bytes};
  const auto high = std::ranges::lower_bound(cells_, order(wanted), {}, order);
  const bool above = high != cells_.end() && same_kind(*high, wanted);
  const bool below = high != cells_.begin() && same_kind(*std::prev(high), wanted);
  if (above && high->bytes == bytes) return *high;
  if (above && below && high->bytes <= std::prev(high)->bytes * widest_gap)
    return between(*std::prev(high), *high, bytes);
  if (above && high->bytes <= bytes * beyond) return *high;
  if (below && bytes <= std::prev(high)->bytes * beyond) return *std::prev(high);
  return wanted;
}

}  // namespace capstan
