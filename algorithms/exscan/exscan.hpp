// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Exclusive scan: rank r ends up with the sum of the inputs of ranks 0 .. r-1; rank 0 gets nothing.
// Each function expects a group of at least two ranks.

namespace capstan {

std::span<const Algorithm> exscan_algorithms();

Schedule flat_exscan(const Group& group, Elements count);
Schedule recursive_doubling_exscan(const Group& group, Elements count);
Schedule chain_exscan(const Group& group, Elements count);

}  // namespace capstan
