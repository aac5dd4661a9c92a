// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "core/tools/cli/perf/cells.hpp"

namespace capstan::cli {

/// Adds the options of `capstan perf`, with short names that nccl-tests has, and its footer.
void add_perf_options(CLI::App& command, PerfOptions& options);

}  // namespace capstan::cli
