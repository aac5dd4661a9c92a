// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// The descriptions of commands and options, from which manual pages and completions are made.

namespace capstan::cli {

/// The options that `--help` shows, in its order.
std::vector<const CLI::Option*> options_of(const CLI::App& app);
/// The commands below this one.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
/// "-n, --ranks", or the name of an argument.
std::string names_of(const CLI::Option& option);
/// "TEXT"; empty for a flag and for an argument.
std::string value_of(const CLI::Option& option);
/// "capstan perf".
std::string full_name_of(const CLI::App& app);
/// "capstan-perf".
std::string page_name(const CLI::App& app);

}  // namespace capstan::cli
