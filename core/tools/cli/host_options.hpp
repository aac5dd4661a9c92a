// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/tools/launcher/host_options.hpp"
#include "core/tools/launcher/launcher.hpp"

namespace capstan::cli {

/// Adds the options of every command that starts ranks on other hosts.
void add_host_options(CLI::App& command, launcher::HostOptions& options);

/// The job that runs this program with the same arguments as ranks: so many here, or those of the
/// hosts that the options name.
launcher::LaunchOptions job_of(int ranks, const launcher::HostOptions& options,
                               std::vector<std::string> arguments);

/// Throws InvalidArgument for options of theirs that do nothing without hosts.
void check_host_options(const CLI::App& command, const launcher::HostOptions& options);

}  // namespace capstan::cli
