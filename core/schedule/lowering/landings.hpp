// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "core/schedule/lowering/arrivals.hpp"

namespace capstan {

/// Landings in scratch whose bytes are still in a peer's staging buffer. They do not overlap: what
/// would is taken out first. Each lookup takes logarithmic time, so that a ring of a million ranks
/// is lowered in a second.
class Landings {
 public:
  void add(const Arrival& arrival);
  /// The landing that contains `span`; null if none does.
  const Arrival* around(const Span& span) const;
  /// Takes out those that overlap `span`, in the order in which they were added.
  std::vector<Arrival> take_overlapping(const Span& span);

 private:
  struct Entry {
    Arrival arrival;
    std::size_t order;
  };
  std::vector<Entry> entries_;  // by offset
  std::size_t added_ = 0;
};

/// Pushes to peers on other hosts whose sources may still be read.
class Pushes {
 public:
  void add(Rank peer, const Operand& source, Elements length);
  /// The peers to which bytes go that a write of `span` would overwrite, each once, in the order of
  /// the pushes.
  std::vector<Rank> reading(const Span& span) const;
  /// The same for pushes from scratch and staging.
  std::vector<Rank> reading_reused() const;
  /// Forgets the pushes to a peer.
  void flushed(Rank peer);

 private:
  struct Push {
    Rank peer;
    Place place;
    Elements length;
    std::size_t order;
  };
  using ByOffset = std::multimap<Elements, Push>;
  static constexpr std::size_t places = static_cast<std::size_t>(Place::staging) + 1;

  const ByOffset& from(Place place) const { return from_[static_cast<std::size_t>(place)]; }
  ByOffset& from(Place place) { return from_[static_cast<std::size_t>(place)]; }
  void add_overlapping(const Span& span, std::vector<const Push*>& found) const;

  std::array<ByOffset, places> from_;
  std::array<Elements, places> longest_{};
  std::map<Rank, std::vector<ByOffset::iterator>> to_;
  std::size_t added_ = 0;
};

}  // namespace capstan
