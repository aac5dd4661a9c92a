// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "algorithms/all_to_all_blocks.hpp"
#include "algorithms/registry.hpp"

// How the lists of algorithms are written. An algorithm is a function of what it depends on and no
// more; these adapters make each of them one of a shape.

namespace capstan {

inline constexpr int any_size = 1 << 20;
inline constexpr int all_pairs = 256;  ///< schedules with a step for every peer

/// The same algorithm, declared to be symmetric.
constexpr Algorithm with(Symmetry symmetry, Algorithm algorithm) {
  algorithm.symmetry = symmetry;
  return algorithm;
}

/// The same algorithm, to be considered only where sums are to be reproducible.
constexpr Algorithm for_one_reduction(Algorithm algorithm) {
  algorithm.for_one_reduction = true;
  return algorithm;
}

/// f(group)
template <Schedule (*f)(const Group&)>
Schedule plain(const Group& group, const Shape&) {
  return f(group);
}

/// f(group, count)
template <Schedule (*f)(const Group&, Elements)>
Schedule counted(const Group& group, const Shape& shape) {
  return f(group, shape.count);
}

/// f(group, root, count)
template <Schedule (*f)(const Group&, int, Elements)>
Schedule rooted(const Group& group, const Shape& shape) {
  return f(group, shape.root, shape.count);
}

/// One block per rank: equal ones, or as long as the counts say.
inline Blocks blocks_of(const Group& group, const Shape& shape) {
  return shape.counts.empty() ? Blocks::equal(group.size(), shape.count) : Blocks{shape.counts};
}

/// f(group, blocks)
template <Schedule (*f)(const Group&, const Blocks&)>
Schedule blocked(const Group& group, const Shape& shape) {
  return f(group, blocks_of(group, shape));
}

/// f(group, root, blocks)
template <Schedule (*f)(const Group&, int, const Blocks&)>
Schedule rooted_blocked(const Group& group, const Shape& shape) {
  return f(group, shape.root, blocks_of(group, shape));
}

/// f(group, exchange)
template <Schedule (*f)(const Group&, const AllToAllBlocks&)>
Schedule exchanged(const Group& group, const Shape& shape) {
  return f(group, AllToAllBlocks{shape, group.size()});
}

/// The same algorithms for the collective's form with counts.
template <std::size_t n>
std::array<Algorithm, n> with_counts(std::array<Algorithm, n> list, Collective collective) {
  for (Algorithm& algorithm : list) algorithm.collective = collective;
  return list;
}

}  // namespace capstan
