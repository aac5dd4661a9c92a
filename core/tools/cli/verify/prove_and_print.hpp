// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/tools/cli/verify/cell.hpp"

namespace capstan::cli {

/// Proves cells on all cores, and prints the results in their order: as a table, which begins with
/// the time that it will take and ends with a total, or as JSON. Returns the exit status.
int prove_and_print(std::vector<ProofCell> cells, const std::string& json);

}  // namespace capstan::cli
