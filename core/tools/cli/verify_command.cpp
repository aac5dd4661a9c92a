// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "algorithms/registry.hpp"
#include "capstan/error.hpp"
#include "core/schedule/proof/shapes.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/sizes.hpp"
#include "core/tools/cli/verify/prove_and_print.hpp"
#include "core/tools/cli/verify_file.hpp"
#include "perf/measure/report.hpp"

namespace capstan::cli {
namespace {

/// All small worlds, a power of two with all sizes, and a larger one: half a minute on two cores.
constexpr const char* usual_ranks = "1-12,16,32";
constexpr const char* all_worlds = "1-17,32,64";

struct VerifyCommand {
  std::string collective = "all", algorithm = "all";
  std::string ranks = usual_ranks;
  std::string hosts;
  std::string counts = "awkward";
  int root = -1;
  int show = -1;
  bool in_place_only = false;
  bool all = false;
  std::string json;
};

/// The worlds that are asked for.
std::vector<Hosts> worlds_of(const VerifyCommand& command) {
  if (!command.hosts.empty()) return {parse_hosts(command.hosts)};
  std::vector<Hosts> worlds;
  for (const int ranks : parse_list(command.all ? all_worlds : command.ranks, "--ranks")) {
    if (ranks < 1 || ranks > most_ranks)
      throw InvalidArgument(fmt::format("--ranks: {} is not from 1 to {}", ranks, most_ranks));
    worlds.emplace_back(ranks);
  }
  return worlds;
}

/// The sizes that are asked for; equal ones for each rank, where there are counts.
std::vector<Shape> sizes_for(const VerifyCommand& command, Collective collective, int ranks) {
  if (command.counts == "awkward") return awkward_sizes(collective, ranks);
  std::vector<Shape> shapes;
  for (const int count : parse_list(command.counts, "--count")) {
    const Elements elements{static_cast<std::uint64_t>(count)};
    const int lengths = collective == Collective::all_to_all_v ? ranks * ranks : ranks;
    Shape& shape = shapes.emplace_back(Shape{.count = elements});
    if (has_counts(collective)) shape.counts.assign(static_cast<std::size_t>(lengths), elements);
  }
  return shapes;
}

std::vector<Shape> shapes_for(const VerifyCommand& command, Collective collective, int ranks) {
  if (has_root(collective) && command.root >= ranks) return {};
  const bool given = has_root(collective) && command.root >= 0;
  const auto roots = given ? std::vector<int>{command.root} : roots_of(collective, ranks);
  std::vector<Shape> shapes;
  for (Shape& shape : sizes_for(command, collective, ranks))
    for (const int root : roots) {
      shape.root = root;
      shapes.push_back(shape);
    }
  return shapes;
}

void show(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape, int rank) {
  const int ranks = hosts.ranks();
  if (rank >= ranks)
    throw InvalidArgument(fmt::format("--show {}: there are {} ranks", rank, ranks));
  const auto schedule = algorithm.schedule(Group::world(hosts, Rank{rank}), shape);
  fmt::print("# {} by {} on {} ranks{}, {} elements{}: rank {}\n", name_of(algorithm.collective),
             algorithm.name, ranks,
             hosts.single() ? "" : fmt::format(" of {} hosts", hosts.count()), shape.count.value(),
             has_root(algorithm.collective) ? fmt::format(", root {}", shape.root) : "", rank);
  for (std::size_t i = 0; i < schedule.steps().size(); ++i)
    fmt::print("{:>5}  {}\n", i, to_string(schedule, schedule.steps()[i]));
}

/// The algorithms that are asked for.
std::vector<const Algorithm*> selected(const VerifyCommand& command) {
  std::vector<const Algorithm*> chosen;
  for (const Collective collective : all_collectives()) {
    if (command.collective != "all" && command.collective != name_of(collective)) continue;
    for (const Algorithm& algorithm : algorithms(collective))
      if (command.algorithm == "all" || command.algorithm == algorithm.name)
        chosen.push_back(&algorithm);
  }
  if (!chosen.empty()) return chosen;
  const auto collective = collective_named(command.collective);
  if (collective) algorithm_named(*collective, command.algorithm);  // its error lists all names
  std::set<std::string_view> names;
  for (const Collective each : all_collectives())
    for (const Algorithm& algorithm : algorithms(each)) names.insert(algorithm.name);
  throw InvalidArgument(fmt::format("no collective has an algorithm '{}': choose from {}",
                                    command.algorithm, fmt::join(names, ", ")));
}

/// Options that would do nothing here.
void refuse_idle_options(const CLI::App& app, const VerifyCommand& command,
                         const std::vector<const Algorithm*>& chosen,
                         const std::vector<Hosts>& worlds) {
  const auto rooted = [](const Algorithm* each) { return has_root(each->collective); };
  if (std::ranges::none_of(chosen, rooted))
    refuse_options(
        app, {"--root"},
        fmt::format("{} has no root: leave it out", name_of(chosen.front()->collective)));
  const int most = std::ranges::max(worlds, {}, &Hosts::ranks).ranks();
  if (command.root >= most)
    throw InvalidArgument(
        fmt::format("--root {}: there are {} ranks at most, from 0", command.root, most));
  if (command.show >= 0)
    refuse_options(app, {"--json", "--in-place"}, "not with --show, which proves nothing");
}

/// Empty, or why a word is no collective and no file.
std::string names_collective_or_file(const std::string& word) {
  if (word == "all" || collective_named(word) || is_schedule_file(word)) return "";
  std::string names = "all";
  for (const Collective collective : all_collectives())
    names += fmt::format(", {}", name_of(collective));
  return fmt::format("'{}' is no file, and none of {}", word, names);
}

/// Everything that is asked for, in the order in which it is printed.
std::vector<ProofCell> cells_of(const VerifyCommand& command,
                                const std::vector<const Algorithm*>& chosen,
                                const std::vector<Hosts>& worlds) {
  std::vector<ProofCell> cells;
  for (const Algorithm* algorithm : chosen)
    for (const Hosts& hosts : worlds) {
      auto shapes = shapes_for(command, algorithm->collective, hosts.ranks());
      if (hosts.ranks() > algorithm->max_ranks || shapes.empty()) continue;
      cells.push_back({algorithm, hosts, std::move(shapes),
                       command.in_place_only ? ProvenBuffers::in_place : ProvenBuffers::both});
    }
  if (cells.empty())
    throw InvalidArgument(
        fmt::format("{}: it is not defined for so many ranks: nothing was left to prove",
                    chosen.front()->name));
  return cells;
}

int run(const CLI::App& app, const VerifyCommand& command) {
  perf::check_writable(command.json);
  if (is_schedule_file(command.collective)) {
    refuse_options(
        app,
        {"--algorithm", "--ranks", "--hosts", "--all", "--count", "--root", "--in-place", "--show"},
        "a schedule file says that itself: leave it out");
    return verify_file(command.collective, command.json);
  }
  const auto worlds = worlds_of(command);
  const auto chosen = selected(command);
  refuse_idle_options(app, command, chosen, worlds);
  auto cells = cells_of(command, chosen, worlds);
  if (command.show < 0) return prove_and_print(std::move(cells), command.json);
  for (const ProofCell& cell : cells)
    show(*cell.algorithm, cell.hosts, cell.shapes.back(), command.show);
  return 0;
}

constexpr const char* verify_footer =
    "Examples:\n"
    "  capstan verify                                       all algorithms of all collectives\n"
    "  capstan verify --all                                 the same on more and larger worlds\n"
    "  capstan verify all_reduce --algorithm ring --ranks 3 --count 7\n"
    "  capstan verify broadcast --algorithm chain --ranks 3 --count 7 --root 1 --show 0\n"
    "  capstan verify --hosts 2x2                           what runs over two hosts of two ranks\n"
    "  capstan verify all_gather --algorithm two_level --hosts 0,0,1,1,1\n"
    "  capstan verify ring4.json                            a schedule of another program\n\n"
    "Each proof covers every interleaving of the ranks, calls back to back, and long calls that\n"
    "are cut into blocks: no deadlock, no race, every contribution exactly once in its place; for\n"
    "the schedule and for the programs that it is lowered to, with every root up to 8 ranks. Over\n"
    "several hosts these push to peers that share no memory. The programs that run on devices\n"
    "(GPUs) are not proven yet. 'signals' and 'sent' are messages and elements that the busiest\n"
    "rank sends at the last size, 'between' the elements that the busiest host sends to others.\n\n"
    "The first line says how long all of it will take, as the first proofs went; on a terminal\n"
    "the time that is left is shown. The last line counts what was proven. Exit status: 0 if all\n"
    "is proven, 1 if something is refused, 2 if nothing was left to prove.";

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("verify", "Prove algorithms right, for all ranks at once");
  const auto options = std::make_shared<VerifyCommand>();
  command
      ->add_option("collective", options->collective,
                   "One collective, all, or a schedule file (see capstan export)")
      ->check(names_collective_or_file)
      ->capture_default_str();
  command->add_option("-a,--algorithm", options->algorithm, "One algorithm, or all")
      ->capture_default_str();
  auto* ranks =
      command->add_option("-n,--ranks", options->ranks, "Numbers of ranks, for example 1-17,32")
          ->capture_default_str();
  auto* hosts =
      command
          ->add_option(
              "--hosts", options->hosts,
              "Over these hosts instead of one: 2x3 (two of three ranks each), or the host of "
              "each rank, such as 0,0,1,1,1")
          ->excludes(ranks);
  command
      ->add_flag(
          "--all", options->all,
          fmt::format("More numbers of ranks: {}. This takes three times as long", all_worlds))
      ->excludes(ranks, hosts);
  command->add_option("--count", options->counts, "Numbers of elements, or awkward ones")
      ->capture_default_str();
  command->add_option("--root", options->root, "One root only, of collectives that have one")
      ->check(number_from(0, most_ranks - 1));
  command->add_flag("--in-place", options->in_place_only,
                    "Only with output and input in one place");
  command->add_option("--show", options->show, "Print the steps of this rank instead")
      ->check(number_from(0, most_ranks - 1));
  add_json_option(*command, options->json);
  command->footer(verify_footer);
  command->callback([options, command, &status] { status = run(*command, *options); });
}

}  // namespace capstan::cli
