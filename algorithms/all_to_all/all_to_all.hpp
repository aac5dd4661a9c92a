// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/all_to_all_blocks.hpp"
#include "algorithms/registry.hpp"

// All-to-all: block i of rank r's output is block r of rank i's input. Each function expects a
// group of at least two ranks. In place, arrivals overwrite what is to be sent: nothing is copied
// to the output before everything has been sent.

namespace capstan {

std::span<const Algorithm> all_to_all_algorithms();
std::span<const Algorithm> all_to_all_v_algorithms();

Schedule direct_all_to_all(const Group& group, const AllToAllBlocks& exchange);
Schedule pairwise_all_to_all(const Group& group, const AllToAllBlocks& exchange);
Schedule bruck_all_to_all(const Group& group, const AllToAllBlocks& exchange);
Schedule two_level_all_to_all(const Group& group, const AllToAllBlocks& exchange);

}  // namespace capstan
