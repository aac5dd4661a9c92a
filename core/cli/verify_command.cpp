#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "algorithms/registry.hpp"
#include "core/cli/commands.hpp"
#include "core/ir/error.hpp"
#include "core/ir/proof/prove.hpp"
#include "core/runtime/prove_programs.hpp"

namespace capstan::cli {
namespace {

struct VerifyCommand {
  std::string algorithm = "all";
  std::string ranks = "1-17,32,64";
  std::string counts = "awkward";
  int show = -1;
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

/// "1-3,8" as 1, 2, 3, 8.
std::vector<int> parse_list(const std::string& text, const char* option) {
  std::vector<int> values;
  std::istringstream parts{text};
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = number(part.substr(0, dash), option);
    const int last = dash == std::string::npos ? first : number(part.substr(dash + 1), option);
    if (first > last) throw InvalidArgument(fmt::format("{}: '{}' runs backwards", option, part));
    for (int value = first; value <= last; ++value) values.push_back(value);
  }
  return values;
}

std::vector<Elements> counts_for(const VerifyCommand& command, int ranks) {
  const auto p = static_cast<std::uint64_t>(ranks);
  if (command.counts == "awkward")
    return {Elements{0}, Elements{1}, Elements{p - 1}, Elements{p + 1}, Elements{2 * p + 1}};
  std::vector<Elements> counts;
  for (const int count : parse_list(command.counts, "--count"))
    counts.emplace_back(static_cast<std::uint64_t>(count));
  return counts;
}

std::vector<Schedule> schedules_of(const Algorithm& algorithm, int ranks, const Shape& shape) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank)
    schedules.push_back(algorithm.schedule(Group::world(ranks, Rank{rank}), shape));
  return schedules;
}

struct Result {
  std::size_t steps = 0;   ///< of the rank that has most
  std::uint64_t sent = 0;  ///< elements, for the last count
  std::size_t proofs = 0;
  std::vector<proof::Finding> findings;
};

/// The schedule and its lowered forms, in place and not, calls back to back.
Result verify(const Algorithm& algorithm, int ranks, const std::vector<Elements>& counts) {
  Result result;
  const auto add = [&](const proof::Verdict& verdict) {
    ++result.proofs;
    result.findings.insert(result.findings.end(), verdict.findings.begin(), verdict.findings.end());
  };
  for (const Elements count : counts) {
    const Shape shape{.count = count};
    const auto schedules = schedules_of(algorithm, ranks, shape);
    for (const bool in_place : {false, true}) {
      add(proof::prove_schedules(algorithm.collective, shape, schedules, {.in_place = in_place}));
      for (const Form form : {Form::flags, Form::packets}) {
        const LoweredCall call{&algorithm, form, {shape}};
        add(prove_programs({call, call, call, call}, ranks, in_place));
      }
    }
    result.sent = 0;
    for (const Schedule& schedule : schedules) {
      std::uint64_t sent = 0;
      for (const Step& step : schedule.steps())
        if (step.verb == Verb::put) sent += step.destination.length.value();
      result.sent = std::max(result.sent, sent);
      result.steps = std::max(result.steps, schedule.steps().size());
    }
  }
  return result;
}

void show(const Algorithm& algorithm, int ranks, Elements count, int rank) {
  if (rank >= ranks)
    throw InvalidArgument(fmt::format("--show {}: there are {} ranks", rank, ranks));
  const auto schedule = algorithm.schedule(Group::world(ranks, Rank{rank}), {.count = count});
  fmt::print("# {} on {} ranks, {} elements: rank {}\n", algorithm.name, ranks, count.value(),
             rank);
  for (std::size_t i = 0; i < schedule.steps().size(); ++i)
    fmt::print("{:>5}  {}\n", i, to_string(schedule, schedule.steps()[i]));
}

int run(const VerifyCommand& command) {
  const auto all = algorithms(Collective::all_reduce);
  nlohmann::json lines = nlohmann::json::array();
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  bool good = true;
  if (command.algorithm != "all") algorithm_named(Collective::all_reduce, command.algorithm);
  if (!command.json)
    fmt::print("#{:>19} {:>6} {:>8} {:>8} {:>12}  verdict\n", "algorithm", "ranks", "proofs",
               "steps", "sent");
  for (const Algorithm& algorithm : all) {
    if (command.algorithm != "all" && command.algorithm != algorithm.name) continue;
    for (const int ranks : parse_list(command.ranks, "--ranks")) {
      if (ranks < 1 || ranks > most_ranks)
        throw InvalidArgument(fmt::format("--ranks: {} is not from 1 to {}", ranks, most_ranks));
      if (ranks > algorithm.max_ranks) continue;
      const auto counts = counts_for(command, ranks);
      if (command.show >= 0) {
        show(algorithm, ranks, counts.back(), command.show);
        continue;
      }
      if (terminal) fmt::print(stderr, "\r\033[Kverifying {} on {} ranks\r", algorithm.name, ranks);
      const Result result = verify(algorithm, ranks, counts);
      good = good && result.findings.empty();
      if (terminal) fmt::print(stderr, "\033[K");
      lines.push_back({{"algorithm", algorithm.name},
                       {"ranks", ranks},
                       {"proofs", result.proofs},
                       {"steps", result.steps},
                       {"sent", result.sent},
                       {"ok", result.findings.empty()}});
      if (command.json) continue;
      fmt::print("{:>20} {:>6} {:>8} {:>8} {:>12}  {}\n", algorithm.name, ranks, result.proofs,
                 result.steps, result.sent, result.findings.empty() ? "proven" : "REFUSED");
      for (const auto& finding : result.findings) fmt::print("    {}\n", finding.message);
    }
  }
  if (command.json) fmt::print("{}\n", lines.dump(2));
  return good ? 0 : 1;
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("verify", "Prove algorithms right, for all ranks at once");
  const auto options = std::make_shared<VerifyCommand>();
  command->add_option("--algorithm", options->algorithm, "One algorithm, or all")
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "Numbers of ranks, for example 1-17,32")
      ->capture_default_str();
  command->add_option("--count", options->counts, "Numbers of elements, or awkward ones")
      ->capture_default_str();
  command->add_option("--show", options->show, "Print the steps of this rank instead");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  capstan verify                                       all algorithms\n"
      "  capstan verify --algorithm ring --ranks 3 --count 7\n"
      "  capstan verify --algorithm ring --ranks 3 --count 7 --show 0\n\n"
      "Each proof covers every interleaving of the ranks and calls back to back: no deadlock, no\n"
      "race, every contribution exactly once in its place; for the schedule and for the programs\n"
      "that it is lowered to. 'sent' is what the busiest rank sends at the last count, in "
      "elements.");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace capstan::cli
