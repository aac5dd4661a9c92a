// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/profiles/machine_state.hpp"
#include "perf/compare/distance.hpp"
#include "perf/compare/subject.hpp"

namespace capstan::perf {

/// Single calls, each timed by itself, on the slowest rank of each; microseconds.
struct SingleCalls {
  double p50 = 0, p99 = 0, largest = 0;
};

/// Microseconds per call of one configuration in one cell.
struct Times {
  double median = 0, least = 0;
  double spread = 0;             ///< distance between the quartiles, as a share of the median
  double lower = 0, upper = 0;   ///< the quartiles
  std::vector<double> rounds{};  ///< of each round
  std::optional<SingleCalls> single{};
};

/// One cell of a comparison: calls in a row, and calls that are alone (see AloneCalls).
struct CellResult {
  Subject subject{};
  int ranks = 0;
  Bytes size{};
  Times own{}, bound{};
  Times alone{};            ///< of Capstan; zero where calls were not measured alone
  double times_bound = 0;   ///< median over rounds of Capstan's time over the bound's
  std::uint32_t calls = 1;  ///< of Capstan in each round
  std::size_t rounds = 0;
  std::uint64_t wrong = 0;
  std::string explanation{};  ///< Communicator::explain() after the last call
  MachineState state{};       ///< of the machine meanwhile, as far as ranks know
  Distance distance{};        ///< between the cores

  struct Peer {
    std::string name, worker;  ///< the better of the peer's configurations
    Times times{};
    /// Median over rounds of the peer's time over Capstan's in the same round: a disturbance that
    /// lasts longer than a round affects both alike.
    double ratio = 0, ratio_spread = 0;
    std::uint64_t wrong = 0;
  };
  std::vector<Peer> peers{};
  std::vector<Peer> peers_alone{};         ///< the same for calls that are alone
  std::vector<Peer> ways{}, ways_alone{};  ///< every configuration of every peer

  /// The peer with the lowest ratio; null without peers.
  const Peer* best() const { return best_of(peers); }
  const Peer* best_alone() const { return best_of(peers_alone); }
  /// The best peer's ratio: above 1 Capstan is faster. Empty without a valid one.
  std::optional<double> ratio() const { return ratio_of(own, best()); }
  std::optional<double> ratio_alone() const { return ratio_of(alone, best_alone()); }
  /// Whether a peer is as fast in a row, or alone.
  /// Whether the rounds of one kind of calls are on both sides of 1, within the spread.
  bool undecided() const { return is_noise(best()) || is_noise(best_alone()); }
  bool lost() const { return ratio().value_or(2) <= 1 || ratio_alone().value_or(2) <= 1; }

 private:
  static bool is_noise(const Peer* best);
  static const Peer* best_of(const std::vector<Peer>& peers);
  static std::optional<double> ratio_of(const Times& own, const Peer* best);
};

}  // namespace capstan::perf
