// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// All-gather: every rank ends up with the inputs of all, block r being rank r's. Each function
// expects a group of at least two ranks and serves equal blocks and blocks of any lengths. What
// comes from a rank that need not have heard of the receiver yet lands in scratch.

namespace capstan {

std::span<const Algorithm> all_gather_algorithms();
std::span<const Algorithm> all_gather_v_algorithms();

Schedule direct_all_gather(const Group& group, const Blocks& blocks);
Schedule rendezvous_all_gather(const Group& group, const Blocks& blocks);
Schedule ring_all_gather(const Group& group, const Blocks& blocks);
Schedule recursive_doubling_all_gather(const Group& group, const Blocks& blocks);
Schedule bruck_all_gather(const Group& group, const Blocks& blocks);
Schedule two_level_all_gather(const Group& group, const Blocks& blocks);

}  // namespace capstan
