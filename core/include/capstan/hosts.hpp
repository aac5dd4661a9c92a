#pragma once

#include <vector>

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A map from the ranks of a communicator to hosts. Ranks on one host share memory.
class Hosts {
 public:
  /// Ranks 0 .. ranks-1, all on one host. Implicit, as this is the usual case.
  Hosts(int ranks) : ranks_(ranks) {}
  /// `host_of[r]`: any number that the ranks of one host share.
  explicit Hosts(std::vector<int> host_of);

  int ranks() const { return ranks_; }
  /// Numbered in the order of their first ranks.
  int count() const { return host_of_.empty() ? 1 : static_cast<int>(members_.size()); }
  bool single() const { return count() == 1; }
  int host_of(Rank rank) const {
    return host_of_.empty() ? 0 : host_of_[static_cast<std::size_t>(rank.value())];
  }
  bool together(Rank a, Rank b) const { return host_of(a) == host_of(b); }
  /// Ranks on a host, ascending.
  std::vector<Rank> on(int host) const;
  /// Every host has the same number of ranks.
  bool even() const;

  bool operator==(const Hosts&) const = default;

 private:
  int ranks_;
  std::vector<int> host_of_;                // by rank; empty: one host
  std::vector<std::vector<Rank>> members_;  // by host
};

}  // namespace capstan
