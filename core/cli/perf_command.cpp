#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <map>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/host_options.hpp"
#include "core/cli/options.hpp"
#include "core/custom/added_algorithms.hpp"
#include "core/launcher/launcher.hpp"
#include "core/selection/rules.hpp"
#include "perf/compare/compare.hpp"
#include "perf/measure/measure.hpp"
#include "perf/measure/report.hpp"
#include "perf/measure/start_up.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

struct PerfOptions {
  std::vector<std::string> collectives{"all_reduce"};
  std::vector<int> ranks;
  std::string smallest = "8", largest = "64M";
  std::uint64_t factor = 2;
  std::vector<std::string> types{"f32"}, ops{"sum"};
  std::string algorithm;
  int root = 0;
  bool in_place = false;
  std::vector<std::string> sizes, against;
  std::string json, chart;
  launcher::HostOptions where;
  perf::MeasureOptions measure;

  const std::string& collective() const { return collectives.front(); }
};

template <class Value, class Parse>
std::vector<Value> parse_names(const std::vector<std::string>& names, const char* option,
                               std::span<const Value> all, Parse parse) {
  std::vector<Value> values;
  for (const std::string& name : names) {
    if (name == "all") return {all.begin(), all.end()};
    const auto value = parse(name);
    if (!value) {
      std::vector<std::string_view> known;
      for (const Value each : all) known.push_back(name_of(each));
      throw InvalidArgument(fmt::format("{} does not know '{}': choose from {}, or all", option,
                                        name, fmt::join(known, ", ")));
    }
    values.push_back(*value);
  }
  return values;
}

Bytes parse_size(const std::string& text, const char* option) {
  const auto bytes = parse_bytes(text);
  if (!bytes || *bytes > Bytes{std::uint64_t{1} << 40})
    throw InvalidArgument(
        fmt::format("{} {}: expected a size up to 1024G, such as 8, 64k or 256M", option, text));
  return *bytes;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Collective collective : all_collectives()) names.emplace_back(name_of(collective));
  return names;
}

struct SizeRange {
  Bytes from, to;
};

SizeRange size_range(const PerfOptions& options) {
  const SizeRange range{parse_size(options.smallest, "--min-bytes"),
                        parse_size(options.largest, "--max-bytes")};
  if (range.from > range.to)
    throw InvalidArgument(fmt::format("--min-bytes {} is larger than --max-bytes {}: swap them",
                                      options.smallest, options.largest));
  return range;
}

/// From the smallest to the largest size, which is the last one whatever the factor.
std::vector<Bytes> swept_sizes(const PerfOptions& options) {
  const auto [from, to] = size_range(options);
  std::vector<Bytes> sizes;
  for (Bytes size = from; size < to && size > Bytes{0}; size = size * options.factor)
    sizes.push_back(size);
  if (from == Bytes{0} && to > from) sizes.push_back(from);
  sizes.push_back(to);
  return sizes;
}

/// All cells that the options select.
std::vector<perf::Cell> cells_of(const PerfOptions& options, int ranks) {
  const Collective collective = *collective_named(options.collective());
  if (options.root >= ranks)
    throw InvalidArgument(
        fmt::format("--root {}: there are {} ranks, from 0", options.root, ranks));
  const std::vector<Bytes> sizes = swept_sizes(options);
  std::vector<perf::Cell> cells;
  for (const DataType type :
       parse_names<DataType>(options.types, "--types", all_data_types(), data_type_named))
    for (const ReduceOp op :
         parse_names<ReduceOp>(options.ops, "--ops", all_reduce_ops(), reduce_op_named))
      for (const Bytes size : sizes) {
        if (reduces(collective) && !supports(type, op)) break;
        cells.push_back(perf::cell_of(collective, type, op, size, ranks));
        cells.back().shape.root = options.root;
        cells.back().in_place = options.in_place;
        if (collective == Collective::barrier) break;
      }
  if (cells.empty())
    throw InvalidArgument("none of --ops is defined for any of --types: choose others");
  return cells;
}

/// Selected pairs of operation and type that are not defined.
std::vector<std::string> undefined_pairs(const PerfOptions& options) {
  std::vector<std::string> pairs;
  if (!reduces(*collective_named(options.collective()))) return pairs;
  for (const DataType type :
       parse_names<DataType>(options.types, "--types", all_data_types(), data_type_named))
    for (const ReduceOp op :
         parse_names<ReduceOp>(options.ops, "--ops", all_reduce_ops(), reduce_op_named))
      if (!supports(type, op)) pairs.push_back(fmt::format("{} of {}", name_of(op), name_of(type)));
  return pairs;
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

/// Runs as one rank of a job; rank 0 prints the results.
int run_rank(const PerfOptions& options, const Launch& launch) {
  const auto cells = cells_of(options, launch.size);
  auto settings = Settings::from_environment();
  if (!options.algorithm.empty())
    settings.algorithm = options.collective() + ":" + options.algorithm;
  AlgorithmRules::parse(settings.algorithm, name_is_known);
  if (launch.rank == 0) perf::check_writable(options.json);
  if (!std::getenv("CAPSTAN_BINDING")) bind_if_free(launch);
  Communicator world = Communicator::from_environment(settings);
  const perf::StartUp start_up = perf::measure_start_up(world);
  const bool prints = world.rank() == 0, table = prints && options.json != "-";
  const bool terminal = prints && ::isatty(STDERR_FILENO);

  perf::Bench bench{world, parse_size(options.largest, "--max-bytes"), options.measure};
  if (table)
    fmt::print("{}", perf::table_head(*collective_named(options.collective()), world.size(),
                                      fmt::format("{}, {} buffers", launch.launcher,
                                                  name_of(options.measure.buffers))));
  if (const auto pairs = undefined_pairs(options); table && !pairs.empty())
    fmt::print("# left out, not defined: {}\n", fmt::join(pairs, ", "));
  nlohmann::json results = nlohmann::json::array();
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (terminal) fmt::print(stderr, "\r\033[K[{}/{}] measuring\r", i + 1, cells.size());
    const perf::Measurement measurement = bench.measure(cells[i]);
    wrong += measurement.wrong;
    if (terminal) fmt::print(stderr, "\033[K");
    if (table) fmt::print("{}", table_line(measurement)), std::fflush(stdout);
    results.push_back(to_json(measurement));
  }
  if (table) fmt::print("{}# wrong values: {}\n", to_line(start_up), wrong);
  if (prints && !options.json.empty()) {
    const nlohmann::json document{
        {"launcher", launch.launcher}, {"start_up", to_json(start_up)}, {"results", results}};
    perf::write_document(options.json, document.dump(2));
  }
  return wrong == 0 ? 0 : 1;
}

/// Starts `-n` copies of this command as ranks of a job.
int run_all(const PerfOptions& options, int ranks, std::vector<std::string> arguments) {
  launcher::LaunchOptions all{.ranks = ranks,
                              .command = std::move(arguments),
                              .tag_lines = false,
                              .environment = {},
                              .timeout = {}};
  options.where.apply_to(all);
  all.command.insert(all.command.begin(), all.capstan);
  cells_of(options, all.ranks);  // refuses bad options once, not on every rank
  if (!options.algorithm.empty())
    AlgorithmRules::parse(options.collective() + ":" + options.algorithm, name_is_known);
  if (all.hosts.empty()) perf::check_writable(options.json);  // else rank 0 does, where it runs
  return launcher::launch(all);
}

/// The number of ranks without -n.
int default_ranks(const PerfOptions& options) {
  if (options.where.given()) return ranks_on(options.where.places(0));
  return static_cast<int>(Machine::discover().cores().size());
}

std::vector<Bytes> sizes_of(const PerfOptions& options) {
  std::vector<Bytes> sizes;
  if (!options.sizes.empty()) {
    for (const std::string& size : options.sizes) sizes.push_back(parse_size(size, "--sizes"));
    return sizes;
  }
  const auto [from, to] = size_range(options);
  for (const char* size : {"8", "64", "1K", "8K", "64K", "512K", "1M", "4M", "16M", "64M", "256M"})
    if (const Bytes bytes = parse_size(size, "size"); from <= bytes && bytes <= to)
      sizes.push_back(bytes);
  if (sizes.empty() || sizes.back() < to) sizes.push_back(to);
  return sizes;
}

/// Options that would do nothing here.
void refuse_idle_options(const CLI::App& command, const PerfOptions& options) {
  check_host_options(command, options.where);
  if (options.against.empty()) {
    refuse_options(command, {"--sizes", "--chart"}, "only with --against");
    const Collective collective = *collective_named(options.collective());
    const auto without = [&](const char* what) {
      return fmt::format("{} has no {}: leave it out", name_of(collective), what);
    };
    if (!has_root(collective)) refuse_options(command, {"--root"}, without("root"));
    if (!reduces(collective)) refuse_options(command, {"--ops"}, without("operation"));
    if (collective == Collective::barrier)
      refuse_options(command, {"--min-bytes", "--max-bytes", "--factor", "--types", "--in-place"},
                     without("buffers"));
    return;
  }
  refuse_options(command, {"--factor", "--types", "--ops", "--algorithm", "--root", "--in-place"},
                 "not with --against, which compares f32, sums, root 0 and defaults");
  if (!options.sizes.empty())
    refuse_options(command, {"--min-bytes", "--max-bytes"}, "--sizes says it all: leave this out");
}

int perf_against(const PerfOptions& options) {
  perf::CompareOptions all{.peers = options.against,
                           .collectives = {},
                           .ranks = options.ranks,
                           .where = options.where,
                           .sizes = sizes_of(options),
                           .json = options.json,
                           .chart = options.chart,
                           .measure = options.measure};
  for (const std::string& name : options.collectives)
    if (name == "all")
      all.collectives.insert(all.collectives.end(),
                             {Collective::all_reduce, Collective::broadcast, Collective::reduce,
                              Collective::all_gather, Collective::reduce_scatter,
                              Collective::all_to_all, Collective::barrier});
    else
      all.collectives.push_back(*collective_named(name));
  if (options.measure.buffers != perf::Buffers::plain)
    throw InvalidArgument(
        "--buffers allocated: other libraries have no such memory; leave out --against");
  if (all.ranks.empty()) all.ranks = {default_ranks(options)};
  perf::check_writable(options.json);
  perf::check_writable(options.chart);
  return perf::compare(all);
}

int run_perf(const CLI::App& command, const PerfOptions& options,
             const std::vector<std::string>& arguments) {
  if (!options.against.empty()) {
    refuse_idle_options(command, options);
    return perf_against(options);
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
  if (launched) return run_rank(options, launch);
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
      "--algorithm", options->algorithm,
      "Force an algorithm (`capstan verify` lists them), one with a protocol such as "
      "direct/staged, or rules by size such as 0-4k:flat,4k-inf:direct");
  command->add_option("--root", options->root, "Root of rooted collectives")
      ->check(CLI::Range(0, 4095))
      ->capture_default_str();
  command->add_flag("--in-place", options->in_place, "Use the same memory for input and output");
  command
      ->add_option("--buffers", options->measure.buffers,
                   "Memory of the buffers: plain, or allocated by the library")
      ->transform(CLI::CheckedTransformer(std::map<std::string, perf::Buffers>{
          {"plain", perf::Buffers::plain}, {"allocated", perf::Buffers::allocated}}))
      ->default_str("plain");
  command
      ->add_option(
          "--rounds", options->measure.rounds,
          "Rounds, as far as --seconds has room for them; the median of their times counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--seconds", options->measure.seconds,
                   "How long each size is measured, about; before that, calls run until the "
                   "autotuner has decided, for four times as long at most. With --against so "
                   "long by each library, in three rounds at least")
      ->check(positive_seconds())
      ->capture_default_str();
  command->add_flag("!--no-check", options->measure.check, "Do not check results");
  command->add_option("--json", options->json,
                      "Write the results to a file, or to - instead of a table");
  command
      ->add_option("--against", options->against,
                   "Compare with these libraries, in turns on the same cores: openmpi, mpich, gloo")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--sizes", options->sizes,
                   "With --against: these sizes instead of 8, 64, 1K ... 256M")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--chart", options->chart, "With --against: write an HTML page of diagrams");
  command->footer(
      "Examples:\n"
      "  capstan perf all_reduce -n 4 -b 8 -e 256M\n"
      "  capstan perf all_reduce -n 4 --types all --ops all -b 1k -e 1k\n"
      "  capstan perf all_gather -n 4 --buffers allocated\n"
      "  mpirun -n 4 capstan perf all_reduce -e 1M --algorithm ring\n"
      "  capstan perf all -n 2,4 --against openmpi,mpich,gloo -e 64M --chart peers.html\n"
      "  capstan perf all_reduce --hosts node1:1,node2:1 --against openmpi,mpich,gloo -e 64M\n\n"
      "size    bytes of the largest buffer\n"
      "time    median over the rounds, of the slowest rank\n"
      "spread  interquartile range, as a share of the median\n"
      "algbw   size / time\n"
      "busbw   bandwidth that each link must carry at least, as in nccl-tests: algbw times\n"
      "        2(n-1)/n for all_reduce, (n-1)/n for collectives of blocks, 1 for the others\n"
      "not settled   the autotuner was still trying candidates: raise --seconds\n"
      "alone   time of calls that all ranks begin together after 20 us of quiet, not in a row\n"
      "start-up (in JSON start_up) counts from the start of the process, with the loading of its\n"
      "libraries, to the communicator and to the end of the first all-reduce of 8 bytes.\n\n"
      "--against starts all libraries, binds each rank to its own core, and runs one library at a\n"
      "time, in turns. Where Capstan is faster in a quarter of the rounds and a peer in another\n"
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
