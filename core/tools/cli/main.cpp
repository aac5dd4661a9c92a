// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <memory>

#include "capstan/error.hpp"
#include "core/base/error_text.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/help/folded_help.hpp"
#include "core/tools/cli/standard_streams.hpp"
#include "core/tools/cli/usage.hpp"
#include "core/tools/launcher/complain.hpp"

namespace {

constexpr int failed = 1, wrong_usage = 2;

constexpr const char* examples =
    "Examples:\n"
    "  capstan run -n 4 -- ./my_program             start a program as four ranks\n"
    "  capstan perf all_reduce -n 4 -b 8 -e 256M    measure all-reduce on this machine\n"
    "  capstan verify                               prove the algorithms right\n"
    "  capstan export all_reduce --algorithm ring   what each of four ranks does, as a file\n"
    "  capstan tune                                 measure what is the fastest here\n"
    "  capstan explain all_reduce --bytes 1M        how a call would run, and why\n"
    "  capstan calibrate                            what ranks take here, for simulations\n"
    "  capstan simulate all_reduce -n 4096          what it would take on a cluster\n"
    "  capstan topo --ranks 8                       where eight ranks would run\n"
    "  capstan doctor                               what this machine has and what limits it\n"
    "  capstan settings                             every setting, its value and its source\n\n"
    "'capstan COMMAND --help' has details. Exit status: 0 if all went well, 1 if not, 2 if the\n"
    "command cannot be understood; `capstan run` has that of the first rank that failed.";

/// "capstan 0.2.0 (1a2b3c4d5e6f)".
std::string version_text() {
  const std::string_view commit = capstan::cli::build_commit();
  return fmt::format("capstan {}{}", CAPSTAN_VERSION,
                     commit.empty() ? "" : fmt::format(" ({})", commit));
}

/// perf takes --json FILE for --json=FILE, where FILE has a dot or a slash: no collective has.
void join_file_of_json(std::vector<std::string>& words) {
  const auto json = std::ranges::find(words, "--json");
  if (words.empty() || words.front() != "perf" || json == words.end()) return;
  const auto file = std::next(json);
  if (file == words.end() || file->starts_with('-') || file->find_first_of("./") == file->npos)
    return;
  *json += "=" + *file;
  words.erase(file);
}

/// The words that CLI11 reads, the last one first. -np is mpirun's -n.
std::vector<std::string> as_parsed(std::vector<std::string> words) {
  join_file_of_json(words);
  const auto program = std::ranges::find(words, "--");
  std::ranges::replace(words.begin(), program, "-np", "-n");
  std::ranges::reverse(words);
  return words;
}

int run_command(int argc, char** argv) {
  CLI::App app{"Capstan: collectives whose schedules are data - verified, run, explained",
               "capstan"};
  app.formatter(std::make_shared<capstan::cli::FoldedHelp>());
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.footer(examples);
  app.failure_message(capstan::cli::usage_error);
  int status = 0;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  capstan::cli::add_run_command(app, status);
  capstan::cli::add_mpi_command(app);
  capstan::cli::add_perf_command(app, status, arguments);
  capstan::cli::add_verify_command(app, status);
  capstan::cli::add_export_command(app, status);
  capstan::cli::add_tune_command(app, status, arguments);
  capstan::cli::add_explain_command(app, status, arguments);
  capstan::cli::add_calibrate_command(app, status, arguments);
  capstan::cli::add_simulate_command(app, status, arguments);
  capstan::cli::add_topo_command(app, status);
  capstan::cli::add_doctor_command(app, status);
  capstan::cli::add_ps_command(app, status);
  capstan::cli::add_settings_command(app, status);
  capstan::cli::add_help_command(app);
  try {
    app.parse(as_parsed(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_usage;
  } catch (const capstan::InvalidArgument& error) {
    capstan::launcher::complain("capstan: {}\n", error.what());
    return wrong_usage;
  } catch (...) {
    if (capstan::cli::output_is_lost()) return failed;  // main() tells it
    capstan::launcher::complain("capstan: {}\n", capstan::text_of(std::current_exception()));
    return failed;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  capstan::cli::begin_as_expected();
  return capstan::cli::with_written_output(run_command(argc, argv));
}
