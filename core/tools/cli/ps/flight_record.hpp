// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/tools/cli/ps/look.hpp"

namespace capstan::cli {

/// Writes the last calls of each rank that is here to a file of its own, capstan_trace_rank_0 and
/// so on, in the form of PyTorch's flight recorder. The folder is made where there is none. Calls
/// that PyTorch has no name for are left out: scan and exscan, and what ranks agree on among
/// themselves. Throws SystemError where a file cannot be written.
void write_flight_records(const SeenJob& job, const std::filesystem::path& folder);

}  // namespace capstan::cli
