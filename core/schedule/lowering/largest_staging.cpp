// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/largest_staging.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "core/schedule/lowering/exports.hpp"

namespace capstan {
namespace {

/// Up to so many ranks the schedules of all are looked at.
constexpr int few_ranks = 256;

/// Ranks of which one stages as much as any: those at both ends of the group, around the root and
/// around powers of two from either end, where trees and folded groups are irregular. A test
/// compares them with all ranks.
std::vector<Rank> ranks_that_stage_most(int ranks, int root) {
  constexpr int near = 16;
  std::vector<int> all;
  const auto add = [&](int around, int distance) {
    for (int i = -distance; i <= distance; ++i) all.push_back((around + i + ranks) % ranks);
  };
  for (const int around : {0, root}) {
    add(around, near);
    for (int power = near; power < ranks; power *= 2)
      add(around + power, 2), add(around - power + ranks, 2);
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  std::vector<Rank> found;
  for (const int rank : all) found.emplace_back(rank);
  return found;
}

/// Whether all ranks stage equally much if all blocks are equally long.
bool stages_evenly(const Algorithm& algorithm, int ranks, const Shape& shape) {
  if (!shape.counts.empty() || algorithm.symmetry == Symmetry::none) return false;
  return algorithm.symmetry == Symmetry::rotation ||
         std::has_single_bit(static_cast<unsigned>(ranks));
}

}  // namespace

Elements largest_staging(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                         const Shape& shape) {
  const int ranks = hosts.ranks();
  const auto staged_by = [&](Rank rank, const Shape& of) {
    return staging_extent(algorithm.schedule(Group::world(hosts, rank), of), protocol);
  };
  if (ranks > few_ranks && stages_evenly(algorithm, ranks, shape)) {
    const auto p = static_cast<std::uint64_t>(ranks);
    const Contract contract{algorithm.collective, shape, ranks};
    Shape even = shape;
    if (!contract.input_blocks(0) && !contract.output_blocks(0))
      even.count = Elements{(shape.count.value() + p - 1) / p * p};
    return staged_by(Rank{0}, even);
  }
  const bool irregular = algorithm.source || algorithm.requirement != Requires::anywhere;
  Elements largest;
  if (ranks <= few_ranks || irregular || !shape.counts.empty()) {
    for (const Rank rank : all_ranks(ranks)) largest = std::max(largest, staged_by(rank, shape));
  } else {
    for (const Rank rank : ranks_that_stage_most(ranks, shape.root))
      largest = std::max(largest, staged_by(rank, shape));
  }
  return largest;
}

}  // namespace capstan
