// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schedule/selection/rules.hpp"
#include "core/schedule/simulation/bound.hpp"
#include "core/schedule/simulation/forecast.hpp"
#include "core/tools/cli/topology/topology_file.hpp"
#include "perf/report/origin.hpp"

namespace capstan::cli {

inline constexpr int most_simulated_ranks = 1 << 20;

/// The options of `capstan simulate`.
struct SimulateOptions {
  std::string collective = "all_reduce", bytes = "1M", type = "f32", op = "sum";
  int ranks = 64, ranks_per_host = 0, root = 0;
  std::string algorithm, protocol, fabric, topology, block, costs;
  double skew_us = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> stragglers;  ///< RANK:FACTOR
  bool every_rank = false;
  std::string json;
  bool explains = false;  ///< also says what the library itself would take, and shows less else
  int links = 3, path = 8;
  std::string svg, chart;
};

/// One way to run the call, and what became of it.
struct Way {
  ClusterCall call;
  double least = 0;              ///< it takes at least so many nanoseconds
  std::optional<double> time{};  ///< none: not simulated
  TimeSplit split{};             ///< where the time goes, if it was simulated
  std::string verdict{};
};

/// A cluster with a call on it.
class Scenario {
 public:
  /// Throws InvalidArgument that names the option.
  explicit Scenario(const SimulateOptions& options);

  /// "8 GPUs ...": of the hosts that a file describes; empty without a file.
  const std::string& hosts_summary() const { return file_.summary; }
  const Cluster& cluster() const { return cluster_; }
  const Call& call() const { return call_; }
  const SimulateOptions& options() const { return options_; }

  /// The ways that were asked for, the fastest first. What is not simulated, as it takes at least
  /// as long as another, comes last.
  const std::vector<Way>& ways() const { return ways_; }
  /// The fastest one.
  const Forecast& best() const { return best_; }
  /// The bound that no algorithm can beat here.
  PhysicalBound bound() const { return physical_bound(call_, cluster_); }
  /// The critical path of the fastest way.
  CriticalPath critical_path() const;
  /// The library's choice on such hosts, and the reason for it: "ring/staged, ...".
  std::string own_choice() const;
  /// The rule of CAPSTAN_ALGORITHM that decides about the call; null where the options or nobody
  /// does, or all ways are to be compared.
  const AlgorithmRules::Rule* rule() const;

 private:
  std::vector<const Algorithm*> candidates() const;
  void add_ways();
  void add_way(const Algorithm& algorithm, Protocol protocol);
  void simulate();
  [[noreturn]] void refuse_all() const;  // all have too many steps

  const SimulateOptions options_;
  const TopologyFile file_;
  const Cluster cluster_;
  Call call_;
  const AlgorithmRules rules_;
  Disturbance disturbance_;
  std::vector<Way> ways_;
  Forecast best_;
};

/// Microseconds, as results say them.
constexpr double us(double nanoseconds) {
  return nanoseconds / 1000;
}

/// The result of a simulation: as text, as JSON, and as a picture (SVG) of the ranks over time.
std::string to_text(const Scenario& scenario);
std::string to_json(const Scenario& scenario);
std::string picture(const Scenario& scenario);
/// The same as a page of diagrams, with facts about where it comes from.
std::string chart_page(const Scenario& scenario, const report::Facts& facts);

/// Simulates and prints what the options ask for. `arguments`: of the command, for a page. Returns
/// the exit status.
int run_simulate(const SimulateOptions& options, const std::vector<std::string>& arguments);

}  // namespace capstan::cli
