// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Scan: rank r ends up with the sum of the inputs of ranks 0 .. r. Each function expects a group of
// at least two ranks.

namespace capstan {

std::span<const Algorithm> scan_algorithms();

Schedule flat_scan(const Group& group, Elements count);
Schedule recursive_doubling_scan(const Group& group, Elements count);
Schedule chain_scan(const Group& group, Elements count);

}  // namespace capstan
