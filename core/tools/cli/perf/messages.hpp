// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/bootstrap/launchers/launch.hpp"
#include "core/tools/cli/perf/cells.hpp"

namespace capstan::cli {

/// The name by which `capstan perf` measures messages instead of a collective.
inline constexpr const char* messages_name = "messages";

bool sends_messages(const PerfOptions& options);

/// Throws InvalidArgument for options that say nothing about messages.
void check_message_options(const CLI::App& command, const PerfOptions& options);
/// Throws InvalidArgument where there is no pair.
void check_pairs(int ranks);

/// `capstan perf messages` as one rank of a job; the exit status. Rank 0 prints the results.
int run_messages(const PerfOptions& options, const Launch& launch,
                 const std::vector<std::string>& arguments, Communicator world);

}  // namespace capstan::cli
