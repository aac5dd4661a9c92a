#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capstan/collective.hpp"
#include "capstan/quantity.hpp"

namespace capstan::perf {

/// Microseconds per call: what one configuration needed for one cell.
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
  double times_bound = 0;   ///< Capstan's time over the bound's, both of one round
  std::uint32_t calls = 1;  ///< of Capstan, in a turn
  std::uint64_t wrong = 0;
  std::string way{};  ///< in which Capstan ran

  struct Peer {
    std::string name, worker;  ///< the better of the peer's configurations
    Times times{};
    /// Its time over Capstan's, both of one round: what lasts longer than a round hits both alike.
    double ratio = 0, ratio_spread = 0;
    std::uint64_t wrong = 0;
  };
  std::vector<Peer> peers{};

  const Peer* best() const;
  /// How many times faster than the best peer; nothing without one.
  std::optional<double> ratio() const;
};

}  // namespace capstan::perf
