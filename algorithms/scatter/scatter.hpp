// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Scatter: rank r ends up with block r of the root's input. Each function expects a group of at
// least two ranks and serves equal blocks and blocks of any lengths.

namespace capstan {

std::span<const Algorithm> scatter_algorithms();
std::span<const Algorithm> scatter_v_algorithms();

Schedule direct_scatter(const Group& group, int root, const Blocks& blocks);
Schedule binomial_scatter(const Group& group, int root, const Blocks& blocks);
Schedule leaders_scatter(const Group& group, int root, const Blocks& blocks);

}  // namespace capstan
