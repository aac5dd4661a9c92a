// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Barrier: no rank returns before all have entered. Each function expects a group of at least two
// ranks.

namespace capstan {

std::span<const Algorithm> barrier_algorithms();

Schedule flat_barrier(const Group& group);
Schedule dissemination_barrier(const Group& group);
Schedule binomial_tree_barrier(const Group& group);
Schedule leaders_barrier(const Group& group);

}  // namespace capstan
