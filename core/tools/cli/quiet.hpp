// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "core/profiles/machine_state.hpp"

namespace capstan::cli {

/// How a command that measures deals with other programs on the machine.
struct QuietOptions {
  std::optional<double> patience{};  ///< seconds; none: see await_quiet_machine()
  bool accepts_load = false;
};

/// Adds --patience, and --despite-load where results are kept.
void add_quiet_options(CLI::App& command, QuietOptions& options, bool keeps_results);

/// Waits until other programs leave this machine alone, before a measurement of so many seconds: by
/// default as long as that takes, and ten seconds at most. Says on standard error if it is busy,
/// unless `silent`.
void await_quiet_machine(const char* command, const QuietOptions& options, double seconds,
                         bool silent = false);

}  // namespace capstan::cli
