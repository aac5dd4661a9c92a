// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "algorithms/registry.hpp"
#include "capstan/error.hpp"
#include "core/platform/net/text_of_file.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/names.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/sizes.hpp"
#include "core/tools/cli/verify_file.hpp"

namespace capstan::cli {
namespace {

/// With it the time of any call for all its bytes is a number of nanoseconds.
constexpr double most_nanoseconds_per_byte = 1e6;

struct ExportCommand {
  std::string source;  ///< a collective, or a schedule file
  std::string algorithm, hosts, format = "json", type = "f32", output, name;
  int ranks = 4, root = 0;
  std::optional<std::uint64_t> count;
  std::string bytes;
  ComputeCost cost{};
};

Hosts hosts_of(const ExportCommand& command) {
  return command.hosts.empty() ? Hosts{command.ranks} : parse_hosts(command.hosts);
}

DataType type_of(const ExportCommand& command) {
  const auto type = data_type_named(command.type);
  if (!type) throw InvalidArgument(fmt::format("--type {}: there is no such type", command.type));
  return *type;
}

/// The count of Shape: of the whole buffer, or of one block of it.
Elements count_of(const ExportCommand& command, Collective collective, int ranks) {
  if (command.count) return Elements{*command.count};
  const bool blocks =
      has_counts(collective) ||
      Contract{collective, Shape{.count = Elements{1}}, ranks}.extent() > Elements{1};
  const auto p = static_cast<std::uint64_t>(ranks);
  if (command.bytes.empty()) return Elements{blocks ? 4 : 4 * p};
  const std::uint64_t bytes = parse_size(command.bytes, "--bytes").value();
  const std::uint64_t element = size_of(type_of(command)).value();
  if (bytes % element != 0)
    throw InvalidArgument(fmt::format("--bytes {}: it is no multiple of the {} bytes of {}",
                                      command.bytes, element, command.type));
  return Elements{bytes / element / (blocks ? p : 1)};
}

Shape shape_of(const ExportCommand& command, Collective collective, int ranks) {
  Shape shape{.count = count_of(command, collective, ranks), .root = command.root};
  if (command.root >= ranks)
    throw InvalidArgument(
        fmt::format("--root {}: there are {} ranks, from 0", command.root, ranks));
  if (collective == Collective::barrier) shape.count = Elements{0};
  if (!has_counts(collective)) return shape;
  const int lengths = collective == Collective::all_to_all_v ? ranks * ranks : ranks;
  shape.counts.assign(static_cast<std::size_t>(lengths), std::exchange(shape.count, Elements{0}));
  return shape;
}

/// The schedules to export: read from a file, or made by an algorithm of the library.
ScheduleSet set_of(const CLI::App& app, const ExportCommand& command) {
  const auto collective = collective_named(command.source);
  if (!collective) {
    refuse_options(app, {"--algorithm", "--ranks", "--hosts", "--count", "--bytes", "--root"},
                   "a schedule file says that itself: leave it out");
    return schedule_set_from_json(text_of_file(command.source), command.source);
  }
  if (!has_root(*collective))
    refuse_options(app, {"--root"}, fmt::format("{} has no root: leave it out", command.source));
  const Hosts hosts = hosts_of(command);
  const Algorithm& algorithm = command.algorithm.empty()
                                   ? algorithms(*collective).front()
                                   : algorithm_named(*collective, command.algorithm);
  return schedule_set(algorithm, hosts, shape_of(command, *collective, hosts.ranks()));
}

std::string text_of(const ExportCommand& command, const ScheduleSet& set) {
  if (command.format == "json") return to_json(set);
  if (command.format == "dot") return to_dot(set);
  if (command.format == "svg") return to_svg(set);
  if (command.format == "text") return to_text(set);
  return to_goal(set, size_of(type_of(command)), command.cost);
}

void write(const std::string& text, const std::string& path) {
  if (path.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  std::ofstream file{path};
  if (!file) throw InvalidArgument(fmt::format("--output {}: it cannot be written", path));
  file << text;
  if (!file.flush())
    throw SystemError(fmt::format("--output {}: it cannot be written ({}): name another file", path,
                                  std::strerror(errno)));
}

std::string names_source(const std::string& word) {
  if (collective_named(word) || is_schedule_file(word)) return "";
  std::string names;
  for (const Collective collective : all_collectives())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(collective));
  return fmt::format("'{}' is no file, and none of {}", word, names);
}

constexpr const char* export_footer =
    "Formats:\n"
    "  json  a schedule file: `capstan verify FILE` proves it, CAPSTAN_SCHEDULES=FILE makes\n"
    "        programs use it, and other programs can write one (docs/schedule-files.md)\n"
    "  goal  for the simulators LogGOPSim and ATLAHS; messages in bytes of --type\n"
    "  dot   a graph of steps and signals, for Graphviz\n"
    "  svg   a space-time diagram, for a browser\n"
    "  text  the steps of each rank\n\n"
    "Examples:\n"
    "  capstan export all_reduce --algorithm ring --ranks 4 -o ring4.json\n"
    "  capstan verify ring4.json\n"
    "  capstan export all_reduce --algorithm rabenseifner --ranks 8 --bytes 1M --format goal\n"
    "  capstan export broadcast --algorithm binomial --ranks 8 --root 2 --format dot | dot -Tsvg\n"
    "  capstan export ring4.json --format svg -o ring4.svg      of a file\n"
    "  capstan export all_gather --algorithm two_level --hosts 2x4 --format text";

void add_sizes(CLI::App& command, ExportCommand& options) {
  auto* ranks = command.add_option("--ranks,-n", options.ranks, "Number of ranks")
                    ->check(number_from(1, most_ranks))
                    ->capture_default_str();
  command
      .add_option(
          "--hosts", options.hosts,
          "Ranks on several hosts: 2x3 (two of three ranks each), or the host of each rank, "
          "such as 0,0,1")
      ->excludes(ranks);
  auto* count = command
                    .add_option("--count", options.count,
                                "Elements: of the whole buffer (broadcast, reduce, all_reduce, "
                                "scans) or of one rank's block; 4 per rank if left out")
                    ->check(number_from(std::uint64_t{0}, std::uint64_t{1} << 40));
  command.add_option("-b,--bytes", options.bytes, "Bytes of the largest buffer instead")
      ->excludes(count);
  command.add_option("--root", options.root, "The root, where there is one")
      ->check(number_from(0, most_ranks - 1))
      ->capture_default_str();
}

}  // namespace

void add_export_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "export", "Write what each rank of an algorithm does, for other programs and for people");
  const auto options = std::make_shared<ExportCommand>();
  command->add_option("collective", options->source, "A collective, or a schedule file to convert")
      ->required()
      ->check(names_source);
  command->add_option("--algorithm,-a", options->algorithm,
                      "The algorithm; the first of `capstan verify COLLECTIVE` if left out");
  add_sizes(*command, *options);
  command->add_option("--format,-f", options->format, "json, dot, goal, svg or text")
      ->check(CLI::IsMember({"json", "dot", "goal", "svg", "text"}))
      ->capture_default_str();
  command->add_option("--type", options->type, "Element type, for --bytes and goal")
      ->capture_default_str();
  command
      ->add_option("--ns-per-byte", options->cost.nanoseconds_per_byte,
                   "goal: nanoseconds that copies and reductions take for a byte that they read")
      ->check(number_from(0.0, most_nanoseconds_per_byte))
      ->capture_default_str();
  command
      ->add_option("--name", options->name,
                   "Another name for the algorithm: those of built-in ones cannot be added")
      ->check(why_no_name);
  command->add_option("--output,-o", options->output, "A file instead of standard output");
  command->footer(export_footer);
  command->callback([options, command, &status] {
    ScheduleSet set = set_of(*command, *options);
    if (command->count("--name") > 0) set.algorithm = options->name;
    write(text_of(*options, set), options->output);
    status = 0;
  });
}

}  // namespace capstan::cli
