// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/schedule/selection/rules.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/cells.hpp"
#include "core/tools/cli/perf/job.hpp"
#include "core/tools/cli/perf/job_documents.hpp"
#include "core/tools/cli/perf/messages.hpp"
#include "core/tools/cli/perf/options.hpp"
#include "core/tools/cli/perf/rank_of_job.hpp"
#include "core/tools/cli/perf/refusals.hpp"
#include "core/tools/cli/sizes.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/launcher.hpp"
#include "perf/compare/compare.hpp"
#include "perf/measure/duration_text.hpp"
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

/// Refuses bad options once, before ranks start.
void check_cells(const PerfOptions& options, int ranks) {
  if (sends_messages(options)) return check_pairs(ranks);
  if (ranks % options.measure.groups != 0)
    throw InvalidArgument(fmt::format("--groups {}: {} ranks cannot be divided by it",
                                      options.measure.groups, ranks));
  cells_of(options, ranks / options.measure.groups);
  rules_of(options);
}

/// The rounds of calls in a row; as long again where something else is measured as well.
double seconds_of(const PerfOptions& options, int ranks) {
  if (sends_messages(options))
    return options.measure.seconds * static_cast<double>(swept_sizes(options).size());
  const std::size_t cells = cells_of(options, ranks / options.measure.groups).size();
  const bool twice = options.both_places || options.measure.beside != perf::Beside::nothing;
  return options.measure.seconds * static_cast<double>(cells) * options.cycles * (twice ? 2 : 1);
}

/// On a terminal, where it takes longer than one likes to wait.
void say_how_long(double seconds) {
  constexpr double short_wait = 2;
  if (seconds > short_wait && ::isatty(STDERR_FILENO) != 0)
    launcher::complain("perf: about {}\n", perf::duration_text(seconds));
}

/// Looks at the machine before a job of so many ranks on it.
void prepare_machine(const PerfOptions& options, int ranks) {
  check_files(options);
  const double seconds = seconds_of(options, ranks);
  await_quiet_machine("perf", options.quiet, seconds, !prints_text(options.json));
  say_how_long(seconds);
}

/// Starts `-n` copies of this command as ranks of a job.
int run_all(const PerfOptions& options, int ranks, std::vector<std::string> arguments) {
  launcher::LaunchOptions all = job_of(ranks, options.where, std::move(arguments));
  if (options.timeout > 0) all.timeout = *time_limit_of(options.timeout);
  check_cells(options, all.ranks);
  check_skew(options, {all.ranks});
  if (all.hosts.empty()) prepare_machine(options, all.ranks);  // else rank 0 does, where it runs
  return launcher::launch(all);
}

/// The number of ranks without -n.
int default_ranks(const PerfOptions& options) {
  if (options.where.given()) return ranks_on(options.where.places(0));
  return static_cast<int>(Machine::discover().cores().size());
}

int perf_against(const PerfOptions& options, const std::vector<std::string>& arguments) {
  perf::CompareOptions all{.peers = options.against,
                           .subjects = {},
                           .ranks = options.ranks,
                           .where = options.where,
                           .sizes = sizes_of(options),
                           .json = options.json,
                           .chart = options.chart,
                           .origin = report::origin(arguments, build_commit()),
                           .measure = options.measure};
  all.subjects = compared_subjects(options);
  if (all.ranks.empty()) all.ranks = {default_ranks(options)};
  if (sends_messages(options)) check_pairs(std::ranges::min(all.ranks));
  check_skew(options, all.ranks);
  check_files(options);
  if (!options.where.given())
    await_quiet_machine("perf", options.quiet, options.measure.seconds, !prints_text(options.json));
  return perf::compare(all);
}

/// The work of one rank, whose job has started.
int run_rank(const PerfOptions& options, const Launch& launch,
             const std::vector<std::string>& arguments, Communicator world) {
  if (sends_messages(options)) return run_messages(options, launch, arguments, std::move(world));
  return RankOfJob{options, launch, arguments, std::move(world)}.run();
}

int run_as_threads(const PerfOptions& options, const std::vector<std::string>& arguments) {
  check_cells(options, options.threads);
  check_skew(options, {options.threads});
  prepare_machine(options, options.threads);
  return run_threads(options, [&](const Launch& launch, Communicator world) {
    return run_rank(options, launch, arguments, std::move(world));
  });
}

/// One job for each number of ranks, and one document that holds theirs.
int run_jobs(const PerfOptions& options, const std::vector<std::string>& arguments) {
  const std::vector<int> numbers =
      options.ranks.empty() ? std::vector<int>{default_ranks(options)} : options.ranks;
  if (numbers.size() == 1) return run_all(options, numbers.front(), arguments);
  if (!(options.chart + options.trace).empty())
    throw InvalidArgument(
        "--chart, --trace: several numbers of ranks are several documents: choose one");
  if (options.where.given() && !options.json.empty() && options.json != "-")
    throw InvalidArgument(
        "--json=FILE: with --hosts and several numbers of ranks rank 0 may run on another host: "
        "use --json, and redirect the output");
  JobDocuments documents{options.json, arguments};
  int status = 0;
  for (const int ranks : numbers) {
    documents.begin();
    const int job = run_all(options, ranks, documents.arguments());
    if (job > 1) return job;  // it has not measured
    status = std::max(status, job);
  }
  documents.end();
  return status;
}

int run_perf(const CLI::App& command, const PerfOptions& options,
             const std::vector<std::string>& arguments) {
  refuse_idle_options(command, options);
  if (!options.against.empty()) return perf_against(options, arguments);
  const Launch launch = detect_launch(process_environment());
  const bool launched = launch.size > 1 || std::getenv("CAPSTAN_RANK");
  if (!launched)
    return options.threads > 0 ? run_as_threads(options, arguments) : run_jobs(options, arguments);
  if (options.threads > 0)
    throw InvalidArgument(
        fmt::format("--threads starts ranks, and {} has, too: leave it out", launch.launcher));
  if (!options.ranks.empty() &&
      std::ranges::find(options.ranks, launch.size) == options.ranks.end())
    throw InvalidArgument(fmt::format("-n {} but {} has started {} ranks: leave -n out",
                                      options.ranks.front(), launch.launcher, launch.size));
  check_cells(options, launch.size);
  return run_rank(options, launch, arguments, join_job(options, launch));
}

}  // namespace

void add_perf_command(CLI::App& app, int& status, const std::vector<std::string>& arguments) {
  auto* command = app.add_subcommand("perf", "Measure a collective and check its results");
  const auto options = std::make_shared<PerfOptions>();
  add_perf_options(*command, *options);
  command->callback([options, command, &status, &arguments] {
    choose_form(*options);
    status = run_perf(*command, *options, arguments);
  });
}

}  // namespace capstan::cli
