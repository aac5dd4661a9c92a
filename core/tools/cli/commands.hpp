// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

// The subcommands of `capstan`. Each function adds one to the application. Its callback runs the
// command and stores the exit status in `status`.

namespace capstan::cli {

void add_run_command(CLI::App& app, int& status);
/// `arguments` is the command line of the program, which starts copies of itself with it.
void add_perf_command(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_verify_command(CLI::App& app, int& status);
void add_export_command(CLI::App& app, int& status);
void add_tune_command(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_explain_command(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_calibrate_command(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_simulate_command(CLI::App& app, int& status, const std::vector<std::string>& arguments);
void add_topo_command(CLI::App& app, int& status);
void add_doctor_command(CLI::App& app, int& status);
void add_mpi_command(CLI::App& app);
void add_ps_command(CLI::App& app, int& status);
void add_settings_command(CLI::App& app, int& status);
void add_help_command(CLI::App& app);

}  // namespace capstan::cli
