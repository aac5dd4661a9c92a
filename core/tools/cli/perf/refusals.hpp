// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "core/tools/cli/perf/cells.hpp"
#include "perf/compare/subject.hpp"

namespace capstan::cli {

/// Works out how calls are made from the options that ask for it.
void choose_form(PerfOptions& options);

/// Throws InvalidArgument for options that would do nothing, or contradict others.
void refuse_idle_options(const CLI::App& command, const PerfOptions& options);

/// The rows that --against compares: `all` stands for the seven collectives that MPI libraries and
/// Gloo share, messages for each of their patterns. Throws InvalidArgument if none can be in place.
std::vector<perf::Subject> compared_subjects(const PerfOptions& options);

}  // namespace capstan::cli
