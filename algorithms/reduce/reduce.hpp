// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Reduce: the root ends up with the sum of all inputs. Each function expects a group of at least
// two ranks. Ranks other than the root have no output: their partial sums stay in scratch.

namespace capstan {

std::span<const Algorithm> reduce_algorithms();

Schedule flat_reduce(const Group& group, int root, Elements count);
Schedule direct_reduce(const Group& group, int root, Elements count);
Schedule binomial_reduce(const Group& group, int root, Elements count);
Schedule chain_reduce(const Group& group, int root, Elements count);
Schedule rabenseifner_reduce(const Group& group, int root, Elements count);
Schedule two_level_reduce(const Group& group, int root, Elements count);
Schedule leaders_reduce(const Group& group, int root, Elements count);

}  // namespace capstan
