// SPDX-License-Identifier: Apache-2.0

// Quality of the selector's choices: every algorithm in every protocol beside the one it chooses.
//
//   capstan run -n 4 -- choice_bench COLLECTIVE[,COLLECTIVE...] [SIZES] [ROUNDS] [FILE]
//
// All candidates are measured in short turns, so that a disturbance of the machine affects all of
// them. Each has a communicator with a rule for it. Inside a host the choice is the autotuner's, or
// with CAPSTAN_AUTOTUNE=0 that of the model. SIZES (8-64M) go up by factors of 4; the median over
// ROUNDS (21) of the slowest rank counts.
// The table compares the chosen one with the best; FILE gets all candidates, measured and
// predicted, as comma-separated values.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/communicator.hpp"
#include "capstan/unique_id.hpp"
#include "core/schedule/selection/rules.hpp"
#include "perf/measure/cell.hpp"
#include "perf/measure/statistics.hpp"

namespace capstan::perf {
namespace {

using Clock = std::chrono::steady_clock;

/// An algorithm in one protocol, with a communicator for it alone.
struct Candidate {
  std::string name;
  Protocol protocol;
  Communicator world;

  /// The name in rules: "direct/staged".
  std::string full_name() const { return capstan::full_name(name, protocol); }
  bool is_in(const std::string& explanation) const {
    return explanation.find(fmt::format("), {}:", name_of(protocol))) != explanation.npos;
  }
};

struct Result {
  std::string name;
  double median, least, predicted;
};

/// A further communicator of the same ranks.
Communicator join_again(Communicator& world, const Settings& settings) {
  // The launcher's store runs on the host of rank 0; that of one host has no address.
  const char* store = std::getenv("CAPSTAN_STORE");
  const std::string endpoint = store && *store != '@' ? store : "127.0.0.1:0";
  std::string host = endpoint.substr(0, endpoint.rfind(':'));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  UniqueId id{};
  if (world.rank() == 0) id = create_unique_id(host);
  world.broadcast(std::span{reinterpret_cast<std::uint8_t*>(id.bytes.data()), id.bytes.size()}, 0);
  return Communicator::join(id, world.rank(), world.size(), settings);
}

std::vector<Candidate> candidates_for(Communicator& world, Collective collective) {
  std::vector<Candidate> candidates;
  for (const Algorithm& algorithm : algorithms(collective))
    for (const Protocol protocol : all_protocols) {
      Settings settings = Settings::from_environment();
      settings.algorithm =
          fmt::format("{}:{}/{}", name_of(collective), algorithm.name, word_for(protocol));
      candidates.push_back({std::string{algorithm.name}, protocol, join_again(world, settings)});
    }
  return candidates;
}

class Bench {
 public:
  Bench(Communicator& world, Bytes largest, int rounds)
      : world_(world), rounds_(rounds), input_(largest.value() + 64), output_(input_.size()) {}

  /// Measures all candidates that can run this cell.
  std::vector<Result> measure(std::vector<Candidate>& candidates, const Cell& cell) {
    const Request request = request_of(cell);
    struct Entry {
      Candidate* candidate;
      std::uint64_t calls;
      std::vector<double> times;
    };
    std::vector<Entry> entries;
    for (Candidate& candidate : candidates)
      if (runs(candidate, request))
        entries.push_back({&candidate, calls_for(candidate.world, request), {}});
    for (int round = 0; round < rounds_; ++round)
      for (Entry& each : entries)
        each.times.push_back(time(each.candidate->world, request, each.calls));
    std::vector<Result> results;
    for (Entry& each : entries) {
      const Statistics statistics{std::move(each.times)};
      results.push_back({each.candidate->full_name(), statistics.median(), statistics.least(),
                         predicted(each.candidate->world, request)});
    }
    return results;
  }

  /// The full name of the choice, after the autotuner has decided if it is on.
  std::string chosen(const std::vector<Candidate>& candidates, const Cell& cell) {
    const Request request = request_of(cell);
    while (!world_.is_settled(request)) world_.run(request);
    std::string name = world_.algorithm(request);
    const std::string why = world_.explain(request);
    for (const Candidate& candidate : candidates)
      if (candidate.name == name && candidate.is_in(why)) return candidate.full_name();
    return name;
  }

 private:
  Request request_of(const Cell& cell) {
    return perf::request_of(cell, world_.rank(), world_.size(), input_.data(), output_.data());
  }

  /// False where the protocol is impossible: the communicator then ignores its rule.
  static bool runs(const Candidate& candidate, const Request& request) {
    return candidate.is_in(candidate.world.explain(request));
  }

  static double predicted(const Communicator& world, const Request& request) {
    const std::string why = world.explain(request);
    const auto at = why.find("predicted ");
    double time = 0;
    if (at != std::string::npos) std::from_chars(&why[at + 10], why.data() + why.size(), time);
    return time;
  }

  std::uint64_t calls_for(Communicator& world, const Request& request) {
    constexpr double round = 700;  // microseconds
    time(world, request, 2);
    double least = time(world, request, 2);
    least = std::min(least, time(world, request, 4));
    return static_cast<std::uint64_t>(std::clamp(round / least, 1.0, 1000.0));
  }

  /// Microseconds per call of the slowest rank.
  double time(Communicator& world, const Request& request, std::uint64_t calls) {
    world_.barrier();
    world.run(request);  // absorbs the skew with which ranks leave the barrier
    const auto start = Clock::now();
    for (std::uint64_t i = 0; i < calls; ++i) world.run(request);
    double time = std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                  static_cast<double>(calls);
    world_.all_reduce(std::span{&time, 1}, ReduceOp::max);
    return time;
  }

  Communicator& world_;
  const int rounds_;
  std::vector<std::byte> input_, output_;
};

/// Counts of good choices.
struct Tally {
  int cells = 0, good = 0, good_by_least = 0;
};

/// Time of the chosen candidate over that of the best.
double loss(const std::vector<Result>& results, const Result& chosen, double Result::* time) {
  return chosen.*time / (*std::ranges::min_element(results, {}, time)).*time;
}

void report(Collective collective, Bytes bytes, const std::string& chosen,
            const std::vector<Result>& results, Tally& tally, std::ofstream* file) {
  constexpr double good = 1.25;
  const auto& best = *std::ranges::min_element(results, {}, &Result::median);
  const auto found = std::ranges::find(results, chosen, &Result::name);
  const bool known = found != results.end();
  const double ratio = known ? loss(results, *found, &Result::median) : 0;
  ++tally.cells;
  tally.good += known && ratio <= good;
  tally.good_by_least += known && loss(results, *found, &Result::least) <= good;
  fmt::print("{:>15} {:>10} {:>22} {:>11.2f} {:>22} {:>11.2f} {:>6.2f}\n", name_of(collective),
             bytes.value(), chosen, ratio * best.median, best.name, best.median, ratio);
  std::fflush(stdout);
  if (!file) return;
  for (const Result& result : results)
    *file << fmt::format("{},{},{},{:.3f},{:.3f},{:.3f},{}\n", name_of(collective), bytes.value(),
                         result.name, result.median, result.least, result.predicted,
                         result.name == chosen ? "chosen" : "")
          << std::flush;
}

std::vector<Collective> collectives_named(const std::string& list) {
  std::vector<Collective> collectives;
  std::istringstream names{list};
  for (std::string name; std::getline(names, name, ',');) {
    const auto collective = collective_named(name);
    if (!collective) throw InvalidArgument("choice_bench: no collective '" + name + "'");
    collectives.push_back(*collective);
  }
  return collectives;
}

void run(const std::vector<std::string>& arguments) {
  const auto argument = [&](std::size_t i, const char* otherwise) {
    return arguments.size() > i ? arguments[i] : std::string{otherwise};
  };
  const auto collectives = collectives_named(argument(0, "all_reduce"));
  const std::string sizes = argument(1, "8-64M");
  const auto smallest = parse_bytes(sizes.substr(0, sizes.find('-')));
  const auto largest = parse_bytes(sizes.substr(sizes.find('-') + 1));
  const int rounds = std::atoi(argument(2, "21").c_str());
  if (!smallest || !largest || *smallest < Bytes{1} || *largest < *smallest || rounds < 1)
    throw InvalidArgument("choice_bench COLLECTIVES [SIZES] [ROUNDS] [FILE]");
  Communicator world = Communicator::from_environment();
  std::ofstream file;
  if (world.rank() == 0 && arguments.size() > 3) file.open(arguments[3]);
  if (world.rank() == 0)
    fmt::print("#{:>14} {:>10} {:>22} {:>11} {:>22} {:>11} {:>6}\n", "collective", "bytes",
               "chosen", "us", "best", "us", "ratio");
  Tally tally;
  Bench bench{world, *largest, rounds};
  for (const Collective collective : collectives) {
    auto candidates = candidates_for(world, collective);
    for (Bytes bytes = *smallest; bytes <= *largest; bytes = bytes * 4) {
      const auto cell = perf::usual_cell_of(collective, bytes, world.size());
      const auto results = bench.measure(candidates, cell);
      const std::string chosen = bench.chosen(candidates, cell);
      if (world.rank() == 0)
        report(collective, bytes, chosen, results, tally, file.is_open() ? &file : nullptr);
      if (collective == Collective::barrier) break;
    }
  }
  if (world.rank() == 0)
    fmt::print(
        "# within 1.25 times the best: {} of {}; by the least times, where medians are disturbed: "
        "{}\n",
        tally.good, tally.cells, tally.good_by_least);
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) try {
  capstan::perf::run({argv + 1, argv + argc});
} catch (const capstan::Error& error) {
  fmt::print(stderr, "choice_bench: {}\n", error.what());
  return 1;
}
