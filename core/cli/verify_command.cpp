#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "algorithms/registry.hpp"
#include "capstan/error.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/options.hpp"
#include "core/ir/proof/prove.hpp"
#include "core/ir/proof/shapes.hpp"
#include "core/lowering/plan.hpp"
#include "core/lowering/verify.hpp"

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

constexpr int most_ranks = 1024;

int number(const std::string& text, const char* option) {
  std::size_t end = 0;
  int value = -1;
  try {
    value = std::stoi(text, &end);
  } catch (const std::exception&) {
  }
  if (value < 0 || end != text.size())
    throw InvalidArgument(fmt::format("{}: '{}' is not a whole number", option, text));
  return value;
}

/// More than can be verified in a life.
constexpr std::size_t longest_list = 100'000;

/// "1-3,8" as 1, 2, 3, 8.
std::vector<int> parse_list(const std::string& text, const char* option) {
  std::vector<int> values;
  std::istringstream parts{text};
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = number(part.substr(0, dash), option);
    const int last = dash == std::string::npos ? first : number(part.substr(dash + 1), option);
    if (first > last) throw InvalidArgument(fmt::format("{}: '{}' runs backwards", option, part));
    for (int value = first; value <= last && values.size() <= longest_list; ++value)
      values.push_back(value);
  }
  if (values.empty() || values.size() > longest_list)
    throw InvalidArgument(fmt::format("{} '{}': from 1 to {} numbers are possible, such as 1-3,8",
                                      option, text, longest_list));
  return values;
}

/// "2x3" as two hosts of three ranks each, "0,0,1" as the host of each rank.
Hosts parse_map(const std::string& text) {
  const std::size_t by = text.find('x');
  const auto in_range = [&](auto ranks) {
    if (ranks < 1 || ranks > most_ranks)
      throw InvalidArgument(
          fmt::format("--hosts {}: not from 1 to {} ranks in all", text, most_ranks));
  };
  if (by == std::string::npos) {
    std::vector<int> host_of = parse_list(text, "--hosts");
    in_range(host_of.size());
    return Hosts{std::move(host_of)};
  }
  const std::int64_t hosts = number(text.substr(0, by), "--hosts"),
                     each = number(text.substr(by + 1), "--hosts");
  in_range(hosts * each);
  std::vector<int> host_of;
  for (int host = 0; host < hosts; ++host)
    host_of.insert(host_of.end(), static_cast<std::size_t>(each), host);
  return Hosts{std::move(host_of)};
}

/// The worlds that are asked for.
std::vector<Hosts> worlds_of(const VerifyCommand& command) {
  if (!command.hosts.empty()) return {parse_map(command.hosts)};
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

ByRank<Schedule> schedules_of(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape) {
  ByRank<Schedule> schedules;
  for (int rank = 0; rank < hosts.ranks(); ++rank)
    schedules.push_back(algorithm.schedule(Group::world(hosts, Rank{rank}), shape));
  return schedules;
}

struct Result {
  std::size_t steps = 0;                ///< of the rank that has the most
  std::uint64_t sent = 0, signals = 0;  ///< by the busiest rank, at the last size
  std::uint64_t between = 0;  ///< sent to other hosts by the busiest host, at the last size
  std::size_t proofs = 0;
  std::vector<std::string> findings;

  /// `proven`: the call, see name_of_case.
  void add(const proof::Result& summary, const std::string& proven) {
    ++proofs;
    for (const proof::Finding& finding : summary.findings)
      findings.push_back(fmt::format("{}: {}", proven, finding.message));
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

/// "all_reduce by ring on 4 ranks, root 1, count 7, in place, staged": all that is needed to prove
/// it again. `form` is a protocol, or "schedule".
std::string name_of_case(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape,
                         bool in_place, std::string_view form) {
  std::string count = fmt::format("count {}", shape.count.value());
  if (has_counts(algorithm.collective)) {
    count = "counts";
    for (const Elements each : shape.counts) count += fmt::format(" {}", each.value());
  }
  return fmt::format("{} by {} on {} ranks{}{}, {}{}, {}", name_of(algorithm.collective),
                     algorithm.name, hosts.ranks(),
                     hosts.single() ? "" : fmt::format(" of {} hosts", hosts.count()),
                     has_root(algorithm.collective) ? fmt::format(", root {}", shape.root) : "",
                     count, in_place ? ", in place" : "", form);
}

/// The schedule and its lowered protocols, in place and not, calls back to back.
Result verify(const Algorithm& algorithm, const Hosts& hosts, const std::vector<Shape>& shapes,
              bool in_place_only) {
  Result result;
  for (const Shape& shape : shapes) {
    const auto schedules = schedules_of(algorithm, hosts, shape);
    for (const bool in_place : {true, false}) {
      if (!in_place && in_place_only) continue;
      result.add(proof::prove_schedules(algorithm.collective, shape, schedules,
                                        {.in_place = in_place,
                                         .synchronizes = algorithm.guarantees.synchronizes,
                                         .bounded_skew = algorithm.guarantees.bounded_skew,
                                         .ordered = algorithm.guarantees.ordered}),
                 name_of_case(algorithm, hosts, shape, in_place, "schedule"));
      for (const Protocol protocol : all_protocols) {
        const bool apart = in_place && overwrites_input(algorithm.collective);
        if (!runs_in(algorithm, protocol, hosts) || (reads_buffers(protocol) && apart)) continue;
        const LoweredCall call{&algorithm, protocol, shape};
        result.add(prove_programs({call, call, call, call, call}, hosts, {.in_place = in_place}),
                   name_of_case(algorithm, hosts, shape, in_place, name_of(protocol)));
      }
    }
    result.measure(schedules, hosts);
  }
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
  std::vector<std::string> names{"all"};
  for (const Collective collective : all_collectives()) names.emplace_back(name_of(collective));
  command->add_option("collective", options->collective, "One collective, or all")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithm, "One algorithm, or all")
      ->capture_default_str();
  auto* ranks =
      command->add_option("--ranks", options->ranks, "Numbers of ranks, for example 1-17,32")
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
      "  capstan verify all_gather --algorithm two_level --hosts 0,0,1,1,1\n\n"
      "Each proof covers every interleaving of the ranks and calls back to back: no deadlock, no\n"
      "race, every contribution exactly once in its place; for the schedule and for the programs\n"
      "that it is lowered to, with every root up to 8 ranks. Over several hosts these push to "
      "peers\n"
      "that share no memory. 'signals' and 'sent' are messages and elements that the busiest rank\n"
      "sends at the last size, 'between' the elements that the busiest host sends to others.");
  command->callback([options, command, &status] { status = run(*command, *options); });
}

}  // namespace capstan::cli
