// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// All-reduce: every rank ends up with the sum, over all ranks, of each input element. Each function
// expects a group of at least two ranks; its file says how it works and what it costs.

namespace capstan {

std::span<const Algorithm> all_reduce_algorithms();

Schedule ring_all_reduce(const Group& group, Elements count);
Schedule binomial_tree_all_reduce(const Group& group, Elements count);
Schedule double_binary_tree_all_reduce(const Group& group, Elements count);
Schedule recursive_doubling_all_reduce(const Group& group, Elements count);
Schedule rabenseifner_all_reduce(const Group& group, Elements count);
Schedule flat_all_reduce(const Group& group, Elements count);
Schedule direct_all_reduce(const Group& group, Elements count);
Schedule two_level_all_reduce(const Group& group, Elements count);
Schedule leaders_all_reduce(const Group& group, Elements count);
Schedule ordered_two_level_all_reduce(const Group& group, Elements count);
Schedule ordered_leaders_all_reduce(const Group& group, Elements count);
Schedule ordered_direct_all_reduce(const Group& group, Elements count);

}  // namespace capstan
