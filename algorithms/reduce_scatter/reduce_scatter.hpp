// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Reduce-scatter: rank r ends up with the sum of block r of all inputs. Each function expects a
// group of at least two ranks and serves equal blocks and blocks of any lengths.

namespace capstan {

std::span<const Algorithm> reduce_scatter_algorithms();
std::span<const Algorithm> reduce_scatter_v_algorithms();

Schedule direct_reduce_scatter(const Group& group, const Blocks& blocks);
Schedule ring_reduce_scatter(const Group& group, const Blocks& blocks);
Schedule recursive_halving_reduce_scatter(const Group& group, const Blocks& blocks);
Schedule parallel_trees_reduce_scatter(const Group& group, const Blocks& blocks);
Schedule two_level_reduce_scatter(const Group& group, const Blocks& blocks);

}  // namespace capstan
