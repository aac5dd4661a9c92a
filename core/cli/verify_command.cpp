#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "algorithms/registry.hpp"
#include "capstan/error.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/options.hpp"
#include "core/cli/sizes.hpp"
#include "core/cli/verify_file.hpp"
#include "core/ir/proof/shapes.hpp"
#include "core/lowering/prove_algorithm.hpp"

namespace capstan::cli {
namespace {

struct VerifyCommand {
  std::string collective = "all", algorithm = "all";
  std::string ranks = "1-17,32,64";
  std::string hosts;
  std::string counts = "awkward";
  int root = -1;
  int show = -1;
  bool in_place_only = false;
  bool json = false;
};

/// The worlds that are asked for.
std::vector<Hosts> worlds_of(const VerifyCommand& command) {
  if (!command.hosts.empty()) return {parse_hosts(command.hosts)};
  std::vector<Hosts> worlds;
  for (const int ranks : parse_list(command.ranks, "--ranks")) {
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

struct Result {
  std::size_t steps = 0;                ///< of the rank that has the most
  std::uint64_t sent = 0, signals = 0;  ///< by the busiest rank, at the last size
  std::uint64_t between = 0;  ///< sent to other hosts by the busiest host, at the last size
  std::size_t proofs = 0;
  std::vector<std::string> findings;

  void add(const AlgorithmProof& proof) {
    proofs += proof.proofs;
    for (const AlgorithmFlaw& flaw : proof.findings) findings.push_back(flaw.text);
  }
  void measure(const ByRank<Schedule>& schedules, const Hosts& hosts) {
    sent = signals = between = 0;
    std::vector<std::uint64_t> by_host(static_cast<std::size_t>(hosts.count()));
    for (const Schedule& schedule : schedules)
      by_host[static_cast<std::size_t>(hosts.host_of(schedule.self()))] += measure(schedule, hosts);
    between = std::ranges::max(by_host);
  }

 private:
  /// Counts the steps of a schedule. Returns the elements that it sends to other hosts.
  std::uint64_t measure(const Schedule& schedule, const Hosts& hosts) {
    std::uint64_t elements = 0, messages = 0, away = 0;
    for (const Step& step : schedule.steps()) {
      if (step.verb == Verb::put) {
        elements += step.destination.length.value();
        if (!hosts.together(schedule.self(), step.peer)) away += step.destination.length.value();
      }
      if (step.verb == Verb::signal) ++messages;
    }
    sent = std::max(sent, elements);
    signals = std::max(signals, messages);
    steps = std::max(steps, schedule.steps().size());
    return away;
  }
};

/// All that is asked for, on one world.
Result verify(const Algorithm& algorithm, const Hosts& hosts, const std::vector<Shape>& shapes,
              bool in_place_only) {
  Result result;
  for (const Shape& shape : shapes) {
    const auto buffers = in_place_only ? ProvenBuffers::in_place : ProvenBuffers::both;
    result.add(prove_algorithm(algorithm, hosts, shape, buffers));
    result.measure(schedules_of(algorithm, hosts, shape), hosts);
  }
  if (result.findings.empty())
    result.add(
        prove_streams(algorithm, hosts, ProvenStreams::of(algorithm.collective, hosts.ranks())));
  return result;
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

void print_line(const Algorithm& algorithm, int ranks, const Result& result) {
  fmt::print("{:>17} {:>20} {:>6} {:>7} {:>7} {:>8} {:>10} {:>8}  {}\n",
             name_of(algorithm.collective), algorithm.name, ranks, result.proofs, result.steps,
             result.signals, result.sent, result.between,
             result.findings.empty() ? "proven" : "REFUSED");
  for (const std::string& finding : result.findings) fmt::print("    {}\n", finding);
}

nlohmann::json to_json(const Algorithm& algorithm, int ranks, const Result& result) {
  return {{"collective", name_of(algorithm.collective)},
          {"algorithm", algorithm.name},
          {"ranks", ranks},
          {"proofs", result.proofs},
          {"steps", result.steps},
          {"signals", result.signals},
          {"sent", result.sent},
          {"between_hosts", result.between},
          {"ok", result.findings.empty()},
          {"findings", result.findings}};
}

int run(const CLI::App& app, const VerifyCommand& command) {
  if (is_schedule_file(command.collective)) {
    refuse_options(
        app, {"--algorithm", "--ranks", "--hosts", "--count", "--root", "--in-place", "--show"},
        "a schedule file says that itself: leave it out");
    return verify_file(command.collective, command.json);
  }
  const auto worlds = worlds_of(command);
  const auto chosen = selected(command);
  refuse_idle_options(app, command, chosen, worlds);
  nlohmann::json lines = nlohmann::json::array();
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  bool good = true, any = false;
  if (!command.json && command.show < 0)
    fmt::print("#{:>16} {:>20} {:>6} {:>7} {:>7} {:>8} {:>10} {:>8}  summary\n", "collective",
               "algorithm", "ranks", "proofs", "steps", "signals", "sent", "between");
  for (const Algorithm* algorithm : chosen)
    for (const Hosts& hosts : worlds) {
      const int ranks = hosts.ranks();
      const auto shapes = shapes_for(command, algorithm->collective, ranks);
      if (ranks > algorithm->max_ranks || shapes.empty()) continue;
      any = true;
      if (command.show >= 0) {
        show(*algorithm, hosts, shapes.back(), command.show);
        continue;
      }
      if (terminal)
        fmt::print(stderr, "\r\033[Kverifying {} by {} on {} ranks\r",
                   name_of(algorithm->collective), algorithm->name, ranks);
      const Result result = verify(*algorithm, hosts, shapes, command.in_place_only);
      good = good && result.findings.empty();
      if (terminal) fmt::print(stderr, "\033[K");
      if (command.json)
        lines.push_back(to_json(*algorithm, ranks, result));
      else
        print_line(*algorithm, ranks, result), std::fflush(stdout);
    }
  if (!any)
    throw InvalidArgument(
        fmt::format("{}: it is not defined for so many ranks: nothing was left to prove",
                    chosen.front()->name));
  if (command.json) fmt::print("{}\n", lines.dump(2));
  return good ? 0 : 1;
}

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
  command
      ->add_option("--hosts", options->hosts,
                   "Over these hosts instead of one: 2x3 (two of three ranks each), or the host of "
                   "each rank, such as 0,0,1,1,1")
      ->excludes(ranks);
  command->add_option("--count", options->counts, "Numbers of elements, or awkward ones")
      ->capture_default_str();
  command->add_option("--root", options->root, "One root only, of collectives that have one")
      ->check(CLI::Range(0, most_ranks - 1));
  command->add_flag("--in-place", options->in_place_only,
                    "Only with output and input in one place");
  command->add_option("--show", options->show, "Print the steps of this rank instead")
      ->check(CLI::Range(0, most_ranks - 1));
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  capstan verify                                       all algorithms of all collectives\n"
      "  capstan verify all_reduce --algorithm ring --ranks 3 --count 7\n"
      "  capstan verify broadcast --algorithm chain --ranks 3 --count 7 --root 1 --show 0\n"
      "  capstan verify --hosts 2x2                           what runs over two hosts of two "
      "ranks\n"
      "  capstan verify all_gather --algorithm two_level --hosts 0,0,1,1,1\n"
      "  capstan verify ring4.json                            a schedule of another program\n\n"
      "Each proof covers every interleaving of the ranks, calls back to back, and long calls that\n"
      "are cut into blocks: no deadlock, no race, every contribution exactly once in its place; "
      "for\n"
      "the schedule and for the programs that it is lowered to, with every root up to 8 ranks. "
      "Over\n"
      "several hosts these push to peers that share no memory. 'signals' and 'sent' are messages\n"
      "and elements that the busiest rank sends at the last size, 'between' the elements that the\n"
      "busiest host sends to others.");
  command->callback([options, command, &status] { status = run(*command, *options); });
}

}  // namespace capstan::cli
