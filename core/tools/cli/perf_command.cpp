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
#include "core/tools/cli/host_options.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/perf/cells.hpp"
#include "core/tools/cli/sizes.hpp"
#include "core/tools/launcher/complain.hpp"
#include "core/tools/launcher/launcher.hpp"
#include "perf/compare/compare.hpp"
#include "perf/measure/chart.hpp"
#include "perf/measure/measure.hpp"
#include "perf/measure/report.hpp"
#include "perf/measure/start_up.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Collective collective : all_collectives()) names.emplace_back(name_of(collective));
  return names;
}

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
  const bool prints = world.rank() == 0, table = prints && options.json != "-";
  const bool terminal = prints && ::isatty(STDERR_FILENO);

  perf::MeasureOptions measure = options.measure;
  measure.device_number = std::max(launch.local_rank, 0);
  perf::Bench bench{world, parse_size(options.largest, "--max-bytes"), measure};
  if (table)
    fmt::print("{}", perf::table_head(
                         *collective_named(options.collective()), world.size(),
                         fmt::format("{}, {} buffers", launch.launcher,
                                     measure.vendor.empty() ? std::string{name_of(measure.buffers)}
                                                            : measure.vendor) +
                             (measure.skew.count() > 0 ? unusual_conditions(measure) : "")));
  if (const auto pairs = undefined_pairs(options); table && !pairs.empty())
    fmt::print("# left out, not defined: {}\n", fmt::join(pairs, ", "));
  std::vector<perf::Measurement> measurements;
  nlohmann::json results = nlohmann::json::array();
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (terminal) launcher::complain("\r\033[K[{}/{}] measuring\r", i + 1, cells.size());
    const perf::Measurement measurement = bench.measure(cells[i]);
    wrong += measurement.wrong;
    if (terminal) launcher::complain("\033[K");
    if (table) fmt::print("{}", table_line(measurement)), std::fflush(stdout);
    results.push_back(to_json(measurement));
    measurements.push_back(measurement);
  }
  if (table && !measure.vendor.empty()) fmt::print("# by {}\n", measurements.back().explanation);
  if (table) fmt::print("{}# wrong values: {}\n", to_line(start_up), wrong);
  if (prints && !options.json.empty()) {
    const nlohmann::json document{{"launcher", launch.launcher},
                                  {"skew_us", measure.skew / std::chrono::microseconds{1}},
                                  {"start_up", to_json(start_up)},
                                  {"results", results}};
    perf::write_document(options.json, document.dump(2));
  }
  write_trace(options, bench, cells, prints);
  if (prints && !options.chart.empty())
    perf::write_document(options.chart, chart_page(measurements, report::origin(arguments)));
  return wrong == 0 ? 0 : 1;
}

/// Ranks come at different times only where calls are measured alone.
void check_skew(const PerfOptions& options, const std::vector<int>& ranks) {
  const bool alone = !options.where.given() &&
                     std::ranges::max(ranks) <= static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (!alone && options.measure.skew.count() > 0) throw InvalidArgument{perf::needs_calls_alone};
}

/// Starts `-n` copies of this command as ranks of a job.
int run_all(const PerfOptions& options, int ranks, std::vector<std::string> arguments) {
  const launcher::LaunchOptions all = job_of(ranks, options.where, std::move(arguments));
  cells_of(options, all.ranks);  // refuses bad options once, not on every rank
  check_skew(options, {all.ranks});
  if (!options.algorithm.empty())
    AlgorithmRules::parse(options.collective() + ":" + options.algorithm, name_is_known);
  if (all.hosts.empty()) check_files(options);  // else rank 0 does, where it runs
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
    refuse_options(command, {"--sizes", "--unbound"}, "only with --against");
    const Collective collective = *collective_named(options.collective());
    const auto without = [&](const char* what) {
      return fmt::format("{} has no {}: leave it out", name_of(collective), what);
    };
    if (!has_root(collective)) refuse_options(command, {"--root"}, without("root"));
    if (!reduces(collective)) refuse_options(command, {"--ops"}, without("operation"));
    if (collective == Collective::barrier)
      refuse_options(
          command, {"--min-bytes", "--max-bytes", "--factor", "--types", "--in-place", "--device"},
          without("buffers"));
    return;
  }
  refuse_options(command,
                 {"--factor", "--types", "--ops", "--algorithm", "--root", "--in-place", "--trace"},
                 "not with --against, which compares f32, sums, root 0 and defaults");
  if (!options.sizes.empty())
    refuse_options(command, {"--min-bytes", "--max-bytes"}, "--sizes says it all: leave this out");
}

int perf_against(const PerfOptions& options, const std::vector<std::string>& arguments) {
  perf::CompareOptions all{.peers = options.against,
                           .collectives = {},
                           .ranks = options.ranks,
                           .where = options.where,
                           .sizes = sizes_of(options),
                           .json = options.json,
                           .chart = options.chart,
                           .arguments = arguments,
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
  auto names = collective_names();
  names.emplace_back("all");
  command
      ->add_option("collective", options->collectives,
                   "Collective to measure; with --against a list, or all for the seven that MPI "
                   "libraries share")
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Ranks to start (default: one per core of this host, or all places of --hosts); "
                   "not under "
                   "mpirun or srun. With --against a list")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096));
  add_host_options(*command, options->where);
  command->add_option("-b,--min-bytes", options->smallest, "Smallest message")
      ->capture_default_str();
  command->add_option("-e,--max-bytes", options->largest, "Largest message")->capture_default_str();
  command->add_option("-f,--factor", options->factor, "Factor between sizes")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--types", options->types, "Element types, comma-separated, or all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--ops", options->ops, "Operations, comma-separated, or all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option(
      "-a,--algorithm", options->algorithm,
      "Force an algorithm (`capstan verify` lists them), one with a protocol such as "
      "direct/staged, or rules by size such as 0-4k:flat,4k-inf:direct");
  command->add_option("--root", options->root, "Root of rooted collectives")
      ->check(CLI::Range(0, 4095))
      ->capture_default_str();
  command->add_flag("--in-place", options->in_place, "Use the same memory for input and output");
  command
      ->add_option_function<std::string>(
          "--buffers",
          [options](const std::string& name) {
            options->measure.buffers =
                name == "plain" ? perf::Buffers::plain : perf::Buffers::allocated;
          },
          "Memory of the buffers: plain, or allocated by the library. With --against those of "
          "other libraries stay plain")
      ->check(CLI::IsMember({"plain", "allocated"}))
      ->default_str("plain");
  command
      ->add_option("--device", options->measure.vendor,
                   "Buffers in memory of a GPU, cuda or hip: of the machine's GPUs each rank takes "
                   "the next one, and several share one where there are fewer. Calls are put into "
                   "a stream")
      ->check(CLI::IsMember(std::vector<std::string>{"cuda", "hip"}))
      ->each([options](const std::string&) { options->measure.buffers = perf::Buffers::device; });
  command
      ->add_option(
          "--rounds", options->measure.rounds,
          "Rounds, as far as --seconds has room for them; the median of their times counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--seconds", options->measure.seconds,
                   "How long each size is measured, about; before that, calls run until the "
                   "autotuner has decided, for eight times as long at most. With --against so "
                   "long by each library, in three rounds at least")
      ->check(seconds_to_measure())
      ->capture_default_str();
  command->add_flag("!--no-check", options->measure.check, "Do not check results");
  command->add_option("--json", options->json,
                      "Write the results to a file, or to - instead of a table");
  command
      ->add_option(
          "--against", options->against,
          "Compare with these libraries, in turns on the same cores: openmpi, mpich, gloo; "
          "openmpi5, mpich5, intelmpi, from scripts/setup --peers; or all that are here")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--sizes", options->sizes,
                   "With --against: these sizes instead of 8, 64, 1K ... 256M")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("!--unbound", options->measure.bind,
                    "With --against: ranks run on the cores that the system gives them");
  command
      ->add_option_function<int>(
          "--skew",
          [options](const int& microseconds) {
            options->measure.skew = std::chrono::microseconds{microseconds};
          },
          "Ranks come to calls that are alone at random times within so many microseconds. The "
          "time of a rank counts from the last one on; the greatest mean counts, so that a "
          "broadcast to several ranks seems short")
      ->check(CLI::Range(0, 10000));
  command->add_option("--chart", options->chart,
                      "Write an HTML page of diagrams, which needs no network to be read");
  command->add_option("--trace", options->trace,
                      "Afterwards record a few calls of each size with every step of every rank, "
                      "and write a trace (trace-event format, for ui.perfetto.dev) or, with .svg, "
                      "a picture of the last call");
  command->footer(
      "Examples:\n"
      "  capstan perf all_reduce -n 4 -b 8 -e 256M --chart all_reduce.html\n"
      "  capstan perf all_reduce -n 4 --types all --ops all -b 1k -e 1k\n"
      "  capstan perf all_gather -n 4 --buffers allocated\n"
      "  capstan perf all_reduce -n 8 --device cuda\n"
      "  capstan perf all_reduce -n 4 -b 1M -e 1M --trace steps.svg\n"
      "  mpirun -n 4 capstan perf all_reduce -e 1M --algorithm ring\n"
      "  capstan perf all -n 2,4 --against openmpi,mpich,gloo -e 64M --chart peers.html\n"
      "  scripts/setup --peers; capstan perf all -n 2 --against all -e 64M    Open MPI 5 ... too\n"
      "  capstan perf all_reduce --hosts node1:1,node2:1 --against openmpi,mpich,gloo -e 64M\n\n"
      "size    bytes of the largest buffer\n"
      "time    median over the rounds, of the slowest rank\n"
      "spread  interquartile range, as a share of the median\n"
      "algbw   size / time\n"
      "busbw   bandwidth that each link must carry at least, as in nccl-tests: algbw times\n"
      "        2(n-1)/n for all_reduce, (n-1)/n for collectives of blocks, 1 for the others\n"
      "not settled   the autotuner was still trying candidates: raise --seconds\n"
      "alone   time of calls that all ranks begin together (with --skew at random times) after\n"
      "        20 us of quiet, not in a row\n"
      "--device: in a row calls follow one another in the stream; alone, each is waited for\n"
      "start-up (in JSON start_up) counts from the start of the process, with the loading of its\n"
      "libraries, to the communicator and to the end of the first all-reduce of 8 bytes.\n\n"
      "--against starts all libraries, binds each rank to its own core (not with --unbound), and\n"
      "runs one library at a time, in turns. Where Capstan is faster in a quarter of the rounds "
      "and a peer in another\n"
      "quarter, three times as many rounds follow. Between hosts all libraries use TCP on the\n"
      "interface that CAPSTAN_INTERFACE chooses (CAPSTAN_NETWORK gives Capstan alone another\n"
      "network), and the libraries and these programs must be at the same paths on all hosts.\n"
      "bound is a copy of each rank's share of the bytes, or between hosts bare sockets.\n"
      "Capstan's algorithm and protocol are printed beside lost cells, and always in JSON.");
  command->callback([options, command, &status, &arguments] {
    status = run_perf(*command, *options, arguments);
  });
}

}  // namespace capstan::cli
