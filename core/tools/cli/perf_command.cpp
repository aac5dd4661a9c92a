// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/selection/rules.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/commit.hpp"
#include "core/tools/cli/duration_text.hpp"
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/cells.hpp"
#include "core/tools/cli/perf/options.hpp"
#include "core/tools/cli/sizes.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/launcher.hpp"
#include "perf/compare/compare.hpp"
#include "perf/measure/chart.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/measure.hpp"
#include "perf/measure/report.hpp"
#include "perf/measure/start_up.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

/// Binds this rank to its own core, unless the launcher has bound it already.
void bind_if_free(const Launch& launch) {
  const Machine machine = Machine::discover();
  if (launch.local_size < 1 || machine.processing_units().size() == 1) return;
  bind_this_thread(
      place_ranks(machine, launch.local_size)[static_cast<std::size_t>(launch.local_rank)]);
}

/// Built-in algorithms, and those of CAPSTAN_SCHEDULES.
const Algorithm* name_is_known(Collective collective, std::string_view name) {
  AddedAlgorithms& added = AddedAlgorithms::of_process();
  if (const char* const paths = std::getenv("CAPSTAN_SCHEDULES")) added.add_paths(paths);
  return added.check_name(collective, name);
}

/// Throws where a file could not be written.
void check_files(const PerfOptions& options) {
  if (!options.chart.empty()) report::require_charts("--chart");
  perf::check_writable(options.json);
  perf::check_writable(options.chart);
  perf::check_writable(options.trace);
}

/// All ranks make the calls that are recorded; one writes the file.
void write_trace(const PerfOptions& options, perf::Bench& bench,
                 const std::vector<perf::Cell>& cells, bool writes) {
  if (options.trace.empty()) return;
  perf::RecordedCalls recorded;
  for (const perf::Cell& cell : cells) recorded.append(bench.record(cell));
  if (writes) perf::write_document(options.trace, to_document(recorded, options.trace));
}

/// The document of --json and the page of --chart. `facts` are those of the whole run.
void write_documents(const PerfOptions& options, const std::vector<std::string>& arguments,
                     const std::vector<perf::Measurement>& measurements, nlohmann::json facts) {
  report::Facts origin = report::origin(arguments, build_commit());
  facts["format"] = perf::results_format;
  facts["command"] = "perf";
  facts["origin"] = report::to_json(origin);
  facts["results"] = nlohmann::json::array();
  for (const perf::Measurement& each : measurements) facts["results"].push_back(to_json(each));
  write_json(options.json, facts);
  if (options.chart.empty()) return;
  origin.emplace_back("meanwhile", facts["machine"]["text"]);
  perf::write_document(options.chart, chart_page(measurements, origin));
}

/// As nccl-tests sums up: the mean over all lines.
double mean_bus_bandwidth(const std::vector<perf::Measurement>& measurements) {
  double sum = 0;
  for (const perf::Measurement& each : measurements) sum += each.bus_bandwidth();
  return sum / static_cast<double>(measurements.size());
}

/// Runs as one rank of a job; rank 0 prints the results.
int run_rank(const PerfOptions& options, const Launch& launch,
             const std::vector<std::string>& arguments) {
  const auto cells = cells_of(options, launch.size);
  auto settings = Settings::from_environment();
  if (!options.algorithm.empty())
    settings.algorithm = options.collective() + ":" + options.algorithm;
  AlgorithmRules::parse(settings.algorithm, name_is_known);
  if (launch.rank == 0) check_files(options);
  if (!std::getenv("CAPSTAN_BINDING")) bind_if_free(launch);
  Communicator world = Communicator::from_environment(settings);
  const perf::StartUp start_up = perf::measure_start_up(world);
  const bool prints = world.rank() == 0, table = prints && prints_text(options.json);
  const bool terminal = prints && ::isatty(STDERR_FILENO);

  perf::MeasureOptions measure = options.measure;
  measure.device_number = std::max(launch.local_rank, 0);
  perf::Bench bench{world, largest_of(options), measure};
  const MachineReading before = read_machine();
  const perf::Table columns = perf::measurements_table(cells, perf::line_width());
  if (table)
    perf::print_folded(
        "{}",
        perf::table_head(columns, cells, world.size(),
                         fmt::format("{}, {} buffers", launch.launcher,
                                     measure.vendor.empty() ? std::string{name_of(measure.buffers)}
                                                            : measure.vendor) +
                             (measure.skew.count() > 0 ? unusual_conditions(measure) : "")));
  if (const auto pairs = undefined_pairs(options); table && !pairs.empty())
    perf::print_folded("# left out, not defined: {}\n", fmt::join(pairs, ", "));
  std::vector<perf::Measurement> measurements;
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (terminal) launcher::complain("\r\033[K[{}/{}] measuring\r", i + 1, cells.size());
    const perf::Measurement measurement = bench.measure(cells[i]);
    wrong += measurement.wrong;
    if (terminal) launcher::complain("\033[K");
    if (table) perf::print_folded("{}", table_line(columns, measurement)), std::fflush(stdout);
    measurements.push_back(measurement);
  }
  if (table && !measure.vendor.empty())
    perf::print_folded("# by {}\n", measurements.back().explanation);
  const MachineState state = bench.state_since(before);
  const double bandwidth = mean_bus_bandwidth(measurements);
  if (table)
    perf::print_folded("{}# mean busbw: {:.2f} GB/s\n# machine: {}\n# wrong values: {}\n",
                       to_line(start_up), bandwidth, state.text(), wrong);
  write_trace(options, bench, cells, prints);
  if (prints)
    write_documents(options, arguments, measurements,
                    {{"machine", perf::to_json(state)},
                     {"launcher", launch.launcher},
                     {"skew_us", measure.skew / std::chrono::microseconds{1}},
                     {"start_up", to_json(start_up)}});
  return wrong == 0 && bandwidth >= options.least_bandwidth ? 0 : 1;
}

/// Ranks come at different times only where calls are measured alone.
void check_skew(const PerfOptions& options, const std::vector<int>& ranks) {
  const bool alone = !options.where.given() &&
                     std::ranges::max(ranks) <= static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (!alone && options.measure.skew.count() > 0) throw InvalidArgument{perf::needs_calls_alone};
}

double seconds_of(const PerfOptions& options, int ranks) {
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
  cells_of(options, all.ranks);  // refuses bad options once, not on every rank
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

constexpr const char* says_it_all = "--sizes says it all: leave this out";

/// Options that would do nothing here.
void refuse_idle_options(const CLI::App& command, const PerfOptions& options) {
  check_host_options(command, options.where);
  if (options.measure.buffers == perf::Buffers::device)
    refuse_options(command, {"--buffers", "--algorithm", "--trace", "--against"},
                   "not with --device, whose calls go by the device's own executor or by pinned "
                   "memory");
  if (options.against.empty()) {
    refuse_options(command, {"--unbound"}, "only with --against");
    const Collective collective = *collective_named(options.collective());
    const auto without = [&](const char* what) {
      return fmt::format("{} has no {}: leave it out", name_of(collective), what);
    };
    if (!has_root(collective)) refuse_options(command, {"--root"}, without("root"));
    if (!reduces(collective)) refuse_options(command, {"--ops"}, without("operation"));
    if (collective == Collective::barrier)
      refuse_options(command,
                     {"--min-bytes", "--max-bytes", "--factor", "--sizes", "--types", "--in-place",
                      "--device"},
                     without("buffers"));
    if (!options.sizes.empty())
      refuse_options(command, {"--min-bytes", "--max-bytes", "--factor"}, says_it_all);
    return;
  }
  refuse_options(command,
                 {"--factor", "--types", "--ops", "--algorithm", "--root", "--in-place", "--trace"},
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
  if (!options.against.empty()) {
    refuse_idle_options(command, options);
    return perf_against(options, arguments);
  }
  if (options.collectives.size() > 1 || options.collective() == "all" || options.ranks.size() > 1)
    throw InvalidArgument("several collectives or numbers of ranks: only with --against");
  refuse_idle_options(command, options);
  const Launch launch = detect_launch(process_environment());
  const bool launched = launch.size > 1 || std::getenv("CAPSTAN_RANK");
  const int wanted = options.ranks.empty() ? 0 : options.ranks.front();
  if (launched && wanted != 0 && wanted != launch.size)
    throw InvalidArgument(fmt::format("-n {} but {} has started {} ranks: leave -n out", wanted,
                                      launch.launcher, launch.size));
  if (launched) return run_rank(options, launch, arguments);
  return run_all(options, wanted == 0 ? default_ranks(options) : wanted, arguments);
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
