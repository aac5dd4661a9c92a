// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/judge_profile.hpp"

#include <algorithm>
#include <cmath>

#include "core/schedule/selection/device_links.hpp"
#include "core/schedule/selection/selector.hpp"

namespace capstan {
namespace {

MeasuredWay way_of(const Choice& choice) {
  return {choice.algorithm, choice.protocol, choice.times_shorter};
}

const MeasuredWay* find(const MeasuredCell& cell, const Choice& choice) {
  const MeasuredWay wanted = way_of(choice);
  const auto found = std::ranges::find_if(
      cell.ways, [&](const MeasuredWay& way) { return way.is_same_way(wanted); });
  return found == cell.ways.end() ? nullptr : &*found;
}

/// A way with both of its times.
struct Compared {
  double measured, predicted;
};

std::vector<Compared> compare(const MeasuredCell& cell, const std::vector<Candidate>& candidates) {
  std::vector<Compared> ways;
  for (const Candidate& candidate : candidates)
    if (const MeasuredWay* const way =
            find(cell, {candidate.algorithm, candidate.protocol, {}, candidate.nanoseconds}))
      ways.push_back({way->nanoseconds, candidate.nanoseconds});
  return ways;
}

void count_pairs(const std::vector<Compared>& ways, Judgement& judgement) {
  constexpr double clear = 1.2;
  for (const Compared& fast : ways)
    for (const Compared& slow : ways)
      if (slow.measured > clear * fast.measured) {
        ++judgement.pairs;
        judgement.pairs_in_order += slow.predicted > fast.predicted;
      }
}

}  // namespace

Call measured_call(const MeasuredCell& cell, MemoryKind memory) {
  Call call{.collective = cell.collective, .shape = {.count = Elements{1}}, .memory = memory};
  const std::uint64_t least = std::max<std::uint64_t>(call.extent(cell.ranks).value(), 1);
  call.shape.count = Elements{cell.bytes.value() / least};
  return typical(std::move(call));
}

double JudgedCell::least_ratio() const {
  return capstan::least_ratio(chosen, fastest);
}

double Judgement::median_error() const {
  if (errors.empty()) return 0;
  std::vector<double> sorted = errors;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

Judgement judge(const MeasuredGroup& group, const Hosts& hosts, const LinkModel& model,
                const MeasuredTimes* profile) {
  Judgement judgement;
  for (const MeasuredCell& cell : group.cells) {
    if (cell.ways.empty()) continue;
    if (!cell.decides()) {
      judgement.doubtful.push_back(cell);
      continue;
    }
    const Call call = measured_call(cell, memory_of(model));
    const Decision decision = decide(call, hosts, {}, SumOrder::any, model, profile);
    if (const MeasuredWay* const chosen = find(cell, decision.choice))
      judgement.cells.push_back({cell.collective, cell.bytes, cell.ways.front(), *chosen});
    else
      judgement.not_measured.push_back(
          {cell.collective, cell.bytes, cell.ways.front(), way_of(decision.choice)});
    const auto ways = compare(cell, candidates_for(call, hosts, SumOrder::any, model));
    for (const Compared& way : ways)
      judgement.errors.push_back(std::abs(way.predicted / way.measured - 1));
    count_pairs(ways, judgement);
  }
  return judgement;
}

std::vector<JudgedCell> worse_than(double bound, const std::vector<Judgement>& measurements) {
  std::vector<JudgedCell> worse;
  const auto is_worse = [&](const Judgement& measurement, const JudgedCell& cell) {
    return std::ranges::none_of(measurement.cells, [&](const JudgedCell& other) {
      return other.collective == cell.collective && other.bytes == cell.bytes &&
             other.least_ratio() <= bound;
    });
  };
  if (!measurements.empty())
    std::ranges::copy_if(
        measurements.front().cells, std::back_inserter(worse), [&](const JudgedCell& cell) {
          return std::ranges::all_of(measurements,
                                     [&](const Judgement& each) { return is_worse(each, cell); });
        });
  return worse;
}

}  // namespace capstan
