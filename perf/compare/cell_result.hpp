#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/quantity.hpp"

namespace capstan::perf {

/// Microseconds per call of one configuration in one cell.
struct Times {
  double median = 0, least = 0;
  double spread = 0;  ///< distance between the quartiles, as a share of the median
};

/// One cell of a comparison.
struct CellResult {
  Collective collective{};
  int ranks = 0;
  Bytes size{};
  Times own{}, bound{};
  double times_bound = 0;   ///< median over rounds of Capstan's time over the bound's
  std::uint32_t calls = 1;  ///< of Capstan in each round
  std::size_t rounds = 0;
  std::uint64_t wrong = 0;
  std::string explanation{};  ///< Communicator::explain() after the last call

  struct Peer {
    std::string name, worker;  ///< the better of the peer's configurations
    Times times{};
    /// Median over rounds of the peer's time over Capstan's in the same round: a disturbance that
    /// lasts longer than a round affects both alike.
    double ratio = 0, ratio_spread = 0;
    std::uint64_t wrong = 0;
  };
  std::vector<Peer> peers{};

  /// The peer with the lowest ratio; null without peers.
  const Peer* best() const;
  /// The best peer's ratio: above 1 Capstan is faster. Empty without a valid one.
  std::optional<double> ratio() const;
};

}  // namespace capstan::perf
