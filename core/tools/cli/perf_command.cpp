// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/schedule/selection/rules.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/duration_text.hpp"
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/cells.hpp"
#include "core/tools/cli/perf/job.hpp"
#include "core/tools/cli/perf/messages.hpp"
#include "core/tools/cli/perf/options.hpp"
#include "core/tools/cli/perf/rank_of_job.hpp"
#include "core/tools/cli/sizes.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/launcher.hpp"
#include "perf/compare/compare.hpp"
#include "perf/measure/measure.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

/// Ranks come at different times only where calls are measured alone.
void check_skew(const PerfOptions& options, const std::vector<int>& ranks) {
  const bool alone = !options.where.given() &&
                     std::ranges::max(ranks) <= static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (!alone && options.measure.skew.count() > 0) throw InvalidArgument{perf::needs_calls_alone};
}

double seconds_of(const PerfOptions& options, int ranks) {
  if (sends_messages(options))
    return options.measure.seconds * static_cast<double>(swept_sizes(options).size());
  return options.measure.seconds * static_cast<double>(cells_of(options, ranks).size());
}

/// On a terminal, where it takes longer than one likes to wait.
void say_how_long(double seconds) {
  constexpr double short_wait = 2;
  if (seconds > short_wait && ::isatty(STDERR_FILENO) != 0)
    launcher::complain("perf: about {}\n", duration_text(seconds));
}

/// Starts `-n` copies of this command as ranks of a job.
int run_all(const PerfOptions& options, int ranks, std::vector<std::string> arguments) {
  const launcher::LaunchOptions all = job_of(ranks, options.where, std::move(arguments));
  if (!sends_messages(options)) cells_of(options, all.ranks);  // refuses bad options once
  check_skew(options, {all.ranks});
  if (!options.algorithm.empty())
    AlgorithmRules::parse(options.collective() + ":" + options.algorithm, name_is_known);
  if (all.hosts.empty()) {  // else rank 0 does, where it runs
    check_files(options);
    const double seconds = seconds_of(options, all.ranks);
    await_quiet_machine("perf", options.quiet, seconds, !prints_text(options.json));
    say_how_long(seconds);
  }
  return launcher::launch(all);
}

/// The number of ranks without -n.
int default_ranks(const PerfOptions& options) {
  if (options.where.given()) return ranks_on(options.where.places(0));
  return static_cast<int>(Machine::discover().cores().size());
}

/// Options that would do nothing here.
void refuse_idle_options(const CLI::App& command, const PerfOptions& options) {
  check_host_options(command, options.where);
  if (options.measure.buffers == perf::Buffers::device)
    refuse_options(command, {"--buffers", "--algorithm", "--trace", "--against"},
                   "not with --device, whose calls go by the device's own executor or by pinned "
                   "memory");
  if (options.against.empty()) {
    refuse_options(command, {"--unbound"}, "only with --against");
    if (!options.step.empty())
      refuse_options(command, {"--factor"}, "--step says it: leave this out");
    const Collective collective = *collective_named(options.collective());
    const auto without = [&](const char* what) {
      return fmt::format("{} has no {}: leave it out", name_of(collective), what);
    };
    if (!has_root(collective)) refuse_options(command, {"--root"}, without("root"));
    if (!reduces(collective)) refuse_options(command, {"--ops"}, without("operation"));
    if (collective == Collective::barrier)
      refuse_options(command,
                     {"--min-bytes", "--max-bytes", "--factor", "--sizes", "--types", "--in-place",
                      "--both-places", "--step", "--device"},
                     without("buffers"));
    if (!options.sizes.empty())
      refuse_options(command, {"--min-bytes", "--max-bytes", "--factor", "--step"}, says_it_all);
    return;
  }
  refuse_options(command,
                 {"--factor", "--step", "--types", "--ops", "--algorithm", "--root", "--in-place",
                  "--both-places", "--warmup", "--format", "--list-ranks", "--trace"},
                 "not with --against, which compares f32, sums, root 0 and defaults");
  if (!options.sizes.empty()) refuse_options(command, {"--min-bytes", "--max-bytes"}, says_it_all);
}

int perf_against(const PerfOptions& options, const std::vector<std::string>& arguments) {
  perf::CompareOptions all{.peers = options.against,
                           .collectives = {},
                           .ranks = options.ranks,
                           .where = options.where,
                           .sizes = sizes_of(options),
                           .json = options.json,
                           .chart = options.chart,
                           .origin = report::origin(arguments, build_commit()),
                           .measure = options.measure};
  for (const std::string& name : options.collectives)
    if (name == "all")
      all.collectives.insert(all.collectives.end(),
                             {Collective::all_reduce, Collective::broadcast, Collective::reduce,
                              Collective::all_gather, Collective::reduce_scatter,
                              Collective::all_to_all, Collective::barrier});
    else
      all.collectives.push_back(*collective_named(name));
  if (all.ranks.empty()) all.ranks = {default_ranks(options)};
  check_skew(options, all.ranks);
  check_files(options);
  if (!options.where.given())
    await_quiet_machine("perf", options.quiet, options.measure.seconds, !prints_text(options.json));
  return perf::compare(all);
}

int run_perf(const CLI::App& command, const PerfOptions& options,
             const std::vector<std::string>& arguments) {
  if (sends_messages(options))
    check_message_options(command, options);
  else if (!options.against.empty()) {
    refuse_idle_options(command, options);
    return perf_against(options, arguments);
  }
  if (options.collectives.size() > 1 || options.collective() == "all" || options.ranks.size() > 1)
    throw InvalidArgument("several collectives or numbers of ranks: only with --against");
  if (!sends_messages(options)) refuse_idle_options(command, options);
  const Launch launch = detect_launch(process_environment());
  const bool launched = launch.size > 1 || std::getenv("CAPSTAN_RANK");
  const int wanted = options.ranks.empty() ? 0 : options.ranks.front();
  if (launched && wanted != 0 && wanted != launch.size)
    throw InvalidArgument(fmt::format("-n {} but {} has started {} ranks: leave -n out", wanted,
                                      launch.launcher, launch.size));
  const int ranks = launched ? launch.size : wanted == 0 ? default_ranks(options) : wanted;
  if (sends_messages(options)) check_pairs(ranks);
  if (!launched) return run_all(options, ranks, arguments);
  return sends_messages(options) ? run_messages(options, launch, arguments)
                                 : RankOfJob{options, launch, arguments}.run();
}

}  // namespace

void add_perf_command(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
  auto* command = app.add_subcommand("perf", "Measure a collective and check its results");
  const auto options = std::make_shared<PerfOptions>();
  add_perf_options(*command, *options);
  command->callback([options, command, &status, &arguments] {
    status = run_perf(*command, *options, arguments);
  });
}

}  // namespace capstan::cli
