#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/cli/against/referee.hpp"
#include "core/cli/perf/measure.hpp"

namespace capstan::cli {

/// Microseconds per call: what one configuration needed for one cell.
struct Times {
  double median = 0, least = 0;
  double spread = 0;  ///< distance between the quartiles, as a share of the median
};

/// One cell of a comparison.
struct Duel {
  Collective collective{};
  int ranks = 0;
  Bytes size{};
  Times own{}, bound{};
  std::uint32_t calls = 1;  ///< of Capstan, in a turn
  std::uint64_t wrong = 0;

  struct Peer {
    std::string name, player;  ///< the better of the peer's configurations
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

/// Measures cells for all players in turns, so that whatever else the machine does hits all alike.
class Contest {
 public:
  Contest(Referee& referee, int ranks, const MeasureOptions& options);

  Duel run(Collective collective, Bytes size);
  /// How many times as long Capstan takes for a cell as for others together, measured again in
  /// turns; nothing if it fails in one of them.
  std::optional<double> compare(const Duel& cell, const std::vector<const Duel*>& others);

 private:
  struct Entry {
    bool takes_part = false;
    std::uint32_t calls = 1;
    std::uint64_t wrong = 0;
    std::vector<double> seconds{};
  };
  bool choose(Collective collective, Bytes size);
  double time_own(const Duel& cell);
  against::Answer tell(std::size_t player, against::Order::Kind kind, std::uint32_t calls = 0);
  bool fits_in_memory(const Cell& cell) const;
  void enter(std::size_t player);
  void measure(std::size_t player);
  Duel result(Collective collective, Bytes size) const;

  Referee& referee_;
  const int ranks_;
  const MeasureOptions options_;
  against::Order cell_{};
  bool keep_buffers_ = true;
  std::vector<Entry> entries_;
};

}  // namespace capstan::cli
