// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A map from the ranks of a communicator to hosts. Ranks on one host share memory. A copy takes
/// constant time, however many ranks there are.
class Hosts {
 public:
  /// Ranks 0 .. ranks-1, all on one host. Implicit, as this is the usual case.
  Hosts(int ranks) : ranks_(ranks) {}
  /// `host_of[r]`: any number that the ranks of one host share.
  explicit Hosts(std::vector<int> host_of);

  int ranks() const { return ranks_; }
  /// Numbered in the order of their first ranks.
  int count() const { return map_ ? static_cast<int>(map_->members.size()) : 1; }
  bool single() const { return count() == 1; }
  int host_of(Rank rank) const {
    return map_ ? map_->host_of[static_cast<std::size_t>(rank.value())] : 0;
  }
  bool together(Rank a, Rank b) const { return host_of(a) == host_of(b); }
  /// Ranks on a host, ascending.
  std::vector<Rank> on(int host) const;
  /// The number of ranks on the host that has the most.
  int most_on_a_host() const;
  /// Every host has the same number of ranks.
  bool even() const;

  bool operator==(const Hosts& other) const;

 private:
  struct Map {
    std::vector<int> host_of;                // by rank
    std::vector<std::vector<Rank>> members;  // by host
  };

  int ranks_;
  std::shared_ptr<const Map> map_;  // null: one host; copies share it
};

}  // namespace CAPSTAN_EXPORT capstan
