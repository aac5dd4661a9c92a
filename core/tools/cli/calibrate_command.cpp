// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/profiles/write_profile.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/quiet.hpp"
#include "core/tools/cli/topology/calibrate.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/launcher.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

struct CalibrateOptions {
  int ranks = 0;
  launcher::HostOptions where;
  std::string output;
  QuietOptions quiet;
};

std::string file_of(const CalibrateOptions& options) {
  if (!options.output.empty()) return options.output;
  const std::string file = calibrated_file();
  if (file.empty())
    throw InvalidArgument("there is neither XDG_CONFIG_HOME nor HOME: name a file by --output");
  std::error_code ignored;  // writing the file says what is wrong
  std::filesystem::create_directories(std::filesystem::path{file}.parent_path(), ignored);
  return file;
}

/// The number of ranks to start: --ranks, or all places of --hosts, or one for each core here.
int ranks_of(const CalibrateOptions& options) {
  if (options.where.given()) {
    const int places = ranks_on(options.where.places(options.ranks));
    if (places < 2)
      throw InvalidArgument("--hosts: one place, where two ranks are needed: such as node1:2");
    return places;
  }
  if (options.ranks > 0) return options.ranks;
  return std::max(2, static_cast<int>(Machine::discover().cores().size()));
}

int start_ranks(const CalibrateOptions& options, const std::vector<std::string>& arguments) {
  constexpr double seconds = 2;
  perf::check_writable(file_of(options));
  if (!options.where.given()) await_quiet_machine("calibrate", options.quiet, seconds);
  return launcher::launch(job_of(ranks_of(options), options.where, arguments));
}

/// Adds the model to the user's profile, which the library reads by itself.
void keep_model(const MeasuredGroup& group) {
  const Fingerprint machine = Fingerprint::of(Machine::discover());
  const std::string file = user_profile_path(machine);
  add_model_to_profile(file, machine, group);
  perf::print_folded(
      "calibrate: wrote the model's factors for {} ranks into {}, which later jobs read\n",
      group.ranks, file);
}

/// Rank 0 writes the files.
int run_as_rank(const CalibrateOptions& options) {
  const auto found = calibrate_as_rank(options.output.empty());
  if (!found) return 0;
  const std::string file = file_of(options);
  perf::write_document(file, found->cluster);
  if (file != "-")
    perf::print_folded("calibrate: wrote {}; read it by capstan simulate --topology {}\n", file,
                       options.output.empty() ? "here" : file);
  const bool counts = options.quiet.accepts_load || !found->state.busy();
  if (!counts)
    launcher::say_on_stderr(perf::folded(
        fmt::format("calibrate: {}\ncalibrate: what it measured may be wrong{}; measure again when "
                    "the machine is quiet\n",
                    found->state.text(),
                    options.output.empty() ? ", and the model stays as it was" : ""),
        perf::line_width()));
  if (options.output.empty() && counts) keep_model(found->group);
  return 0;
}

int run_calibrate(const CLI::App& command, const CalibrateOptions& options,
                  const std::vector<std::string>& arguments) {
  check_host_options(command, options.where);
  const Launch launch = detect_launch(process_environment());
  if (launch.size > 1 || std::getenv("CAPSTAN_RANK")) return run_as_rank(options);
  return start_ranks(options, arguments);
}

constexpr const char* footer =
    "Examples:\n"
    "  capstan calibrate                          the cores of this machine\n"
    "  capstan calibrate --hosts node1:2,node2:2  and the network between two hosts\n"
    "  capstan simulate all_reduce -n 4096 --topology here --fabric fat-tree\n\n"
    "Measures, in less than two seconds, what a rank takes to copy and to combine, what it takes\n"
    "to read the memory of another rank on its host, and with --hosts the latency, bandwidth and\n"
    "overhead of the network. The least of several rounds counts. The file is a topology file\n"
    "(JSON, docs/simulation.md), kept by the identity of the machine: --topology here reads it.\n"
    "Unless --output names a file, it also fits the model by which the library chooses\n"
    "algorithms to this machine, and keeps its factors in the user's profile (docs/tuning.md),\n"
    "if other programs have not disturbed it twice.";

}  // namespace

void add_calibrate_command(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
  auto* command = app.add_subcommand(
      "calibrate", "Measure this machine and its network, for choices and simulations");
  const auto options = std::make_shared<CalibrateOptions>();
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Ranks to start (default: one per core of this host, or all places of --hosts)")
      ->check(number_from(2, 4096));
  add_host_options(*command, options->where);
  add_quiet_options(*command, options->quiet, true);
  command->add_option("-o,--output", options->output,
                      "The file, - for standard output (default: the user's, "
                      "capstan/clusters/ID.json in XDG_CONFIG_HOME or ~/.config)");
  command->footer(footer);
  command->callback([options, command, &status, &arguments] {
    status = run_calibrate(*command, *options, arguments);
  });
}

}  // namespace capstan::cli
