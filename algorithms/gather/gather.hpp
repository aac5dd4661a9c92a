// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Gather: the root ends up with the inputs of all, block r being rank r's. Each function expects a
// group of at least two ranks and serves equal blocks and blocks of any lengths.

namespace capstan {

std::span<const Algorithm> gather_algorithms();
std::span<const Algorithm> gather_v_algorithms();

Schedule direct_gather(const Group& group, int root, const Blocks& blocks);
Schedule binomial_gather(const Group& group, int root, const Blocks& blocks);
Schedule leaders_gather(const Group& group, int root, const Blocks& blocks);

}  // namespace capstan
