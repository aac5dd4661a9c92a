// SPDX-License-Identifier: Apache-2.0

// Kills, stops, cut cables and slow ranks, one random run after the other on one testbed of hosts.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "capstan/error.hpp"
#include "tests/processes/soak/rank.hpp"
#include "tests/processes/soak/trial.hpp"

namespace capstan::soak {
namespace {

constexpr std::string_view one_host = "shm";

struct Options {
  std::uint64_t first_seed = 1, seeds = 1;
  std::string network = "tcp";
  std::vector<std::string> only, kinds;
  bool verbose = false;
};

struct Tally {
  int runs = 0, wrong = 0;
  std::vector<double> told;
};

void print_line(const Tally& tally, Fault fault, const std::string& network) {
  std::vector<double> told = tally.told;
  std::ranges::sort(told);
  const double median = told.empty() ? 0 : told[told.size() / 2];
  const double most = told.empty() ? 0 : told.back();
  fmt::print(
      "{} {}: {} of {} runs right; {} with an error, told after {:.2f} s (median), {:.2f} s "
      "(at most)\n",
      network, name_of(fault), tally.runs - tally.wrong, tally.runs, told.size(), median, most);
}

void report(const Scenario& scenario, const Verdict& verdict, const Options& options) {
  const bool right = verdict.complaints.empty();
  if (right && !options.verbose) return;
  fmt::print("{} seed {}: {}\n", right ? "right" : "WRONG", scenario.seed, scenario.description());
  for (const std::string& complaint : verdict.complaints) fmt::print("  {}\n", complaint);
  fmt::print("{}", verdict.transcript);
  if (!right)
    fmt::print("  once more: scripts/soak --network {} --only {} --first-seed {}\n",
               options.network, name_of(scenario.fault), scenario.seed);
}

void run_one(const Testbed& testbed, Scenario scenario, const Options& options, Tally& tally) {
  const bool on_one_host = options.network == one_host;
  if (on_one_host) scenario.move_to_one_host();
  const Verdict verdict = Trial{testbed, scenario, on_one_host ? "tcp" : options.network}.run();
  ++tally.runs;
  tally.wrong += verdict.complaints.empty() ? 0 : 1;
  if (!scenario.ends_well()) tally.told.push_back(verdict.told.count());
  report(scenario, verdict, options);
  std::fflush(stdout);
}

bool is_wanted(const Scenario& scenario, const Options& options) {
  return scenario.fault != Fault::blame || options.kinds.empty() ||
         std::ranges::count(options.kinds, scenario.work()) > 0;
}

/// Faults of cables need some.
bool can_happen(Fault fault, const Options& options) {
  return options.network != one_host || (fault != Fault::cut && fault != Fault::slow);
}

std::vector<Fault> wanted_faults(const Options& options) {
  std::vector<Fault> wanted;
  for (const Fault fault : all_faults) {
    const bool named = std::ranges::count(options.only, name_of(fault)) > 0;
    if (named && !can_happen(fault, options))
      throw InvalidArgument(
          fmt::format("--only {}: there is no cable between ranks on one host", name_of(fault)));
    if (named || (options.only.empty() && fault != Fault::blame && can_happen(fault, options)))
      wanted.push_back(fault);
  }
  return wanted;
}

/// After each seed on a terminal, after each tenth elsewhere.
void show_progress(std::uint64_t done, const Options& options) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (done == options.seeds ? !terminal : !terminal && done % 10 != 0) return;
  fmt::print(stderr, "{}soak: {} of {} seeds{}", terminal ? "\r" : "", done, options.seeds,
             terminal && done < options.seeds ? "" : "\n");
}

int run_all(const Options& options) {
  const Testbed testbed = Testbed::of_environment();
  const std::vector<Fault> faults = wanted_faults(options);
  std::map<Fault, Tally> tallies;
  for (std::uint64_t done = 0; done < options.seeds; show_progress(++done, options))
    for (const Fault fault : faults)
      if (const Scenario scenario{fault, options.first_seed + done}; is_wanted(scenario, options))
        run_one(testbed, scenario, options, tallies[fault]);
  int wrong = 0;
  for (const auto& [fault, tally] : tallies) {
    print_line(tally, fault, options.network);
    wrong += tally.wrong;
  }
  return wrong == 0 ? 0 : 1;
}

/// `--rank FAULT SEED`: how a run starts its ranks.
int run_as_rank(const std::vector<std::string>& what) {
  return run_rank(Scenario{fault_named(what.at(0)).value(), std::stoull(what.at(1))});
}

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> rank;
  CLI::App app{"Random faults on a testbed of hosts; scripts/soak makes the testbed."};
  app.add_option("--first-seed", options.first_seed, "the first run's seed");
  app.add_option("--seeds", options.seeds, "how many seeds, one run of each fault per seed");
  app.add_option("--network", options.network, "tcp or ofi, or shm: all ranks on one host")
      ->check(CLI::IsMember{std::vector<std::string>{"tcp", "ofi", "shm"}});
  app.add_option("--only", options.only, "kill, stop, cut, slow or blame")
      ->check(CLI::IsMember{std::vector<std::string>{"kill", "stop", "cut", "slow", "blame"}});
  app.add_option("--kinds", options.kinds, "of blame: only these calls, messages or splits");
  app.add_flag("--verbose", options.verbose, "show what ranks said in every run");
  app.add_option("--rank", rank)->expected(2)->group("");
  CLI11_PARSE(app, argc, argv);
  return rank.empty() ? run_all(options) : run_as_rank(rank);
}

}  // namespace
}  // namespace capstan::soak

int main(int argc, char** argv) {
  try {
    return capstan::soak::main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
}
