#pragma once

#include <CLI/CLI.hpp>

#include "core/launcher/host_options.hpp"

namespace capstan::cli {

/// Adds the options of every command that starts ranks on other hosts.
void add_host_options(CLI::App& command, launcher::HostOptions& options);

/// Throws InvalidArgument for options of theirs that do nothing without hosts.
void check_host_options(const CLI::App& command, const launcher::HostOptions& options);

}  // namespace capstan::cli
