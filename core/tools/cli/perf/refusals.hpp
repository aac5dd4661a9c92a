// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "core/tools/cli/perf/cells.hpp"

namespace capstan::cli {

/// Works out how calls are made from the options that ask for it.
void choose_form(PerfOptions& options);

/// Throws InvalidArgument for options that would do nothing, or contradict others.
void refuse_idle_options(const CLI::App& command, const PerfOptions& options);

/// The collectives that --against compares: `all` stands for the seven that MPI libraries and Gloo
/// share.
std::vector<Collective> compared_collectives(const PerfOptions& options);

}  // namespace capstan::cli
