// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "capstan/group.hpp"
#include "capstan/schedule.hpp"

namespace capstan {

/// A group as a grid: a host is a row of ranks that share memory, a column has one rank of each
/// host. Where hosts have different numbers of ranks there are no columns, and all ranks count as
/// one row.
class Grid {
 public:
  explicit Grid(const Group& group);

  /// The ranks of this rank's host, and where it stands among them.
  const Group& row() const { return row_; }
  /// The ranks at the same place of their hosts, and where this rank stands among them.
  const Group& column() const { return column_; }

 private:
  Grid(const Group& group, const Hosts& hosts);

  Group row_, column_;
};

/// One landing for each member of a group, all of them equally long.
std::vector<Span> landings(ScheduleBuilder& s, const Group& group, Elements length);
void wait_for_others(ScheduleBuilder& s, const Group& group);

/// A group as hosts, each with a leader: its first rank, or the one that is asked for.
class Leaders {
 public:
  /// The host of position `root` is led by that.
  Leaders(const Group& group, int root);

  bool leads() const { return self_ == leader_; }
  /// The leader of this rank's host.
  Rank leader() const { return leader_; }
  /// The other ranks of this rank's host, if it leads.
  const std::vector<Rank>& followers() const { return followers_; }
  /// Where this rank stands among the followers of its leader, if it follows.
  int place() const { return place_; }
  /// Ranks on the host that has most of them.
  int largest_host() const { return largest_host_; }
  /// The leaders of all hosts, in order; that of the root at root_host().
  const std::vector<Rank>& leaders() const { return leaders_; }
  int host() const { return host_; }
  int root_host() const { return root_host_; }

 private:
  Rank self_, leader_;
  int host_, root_host_, place_ = 0, largest_host_ = 0;
  std::vector<Rank> followers_, leaders_;
};

/// A group as hosts with any numbers of ranks, by positions in the group. Every rank has a
/// counterpart on each host: the one at the same place there, counted round where that host has
/// fewer ranks. What ranks of a host have for a rank of another passes through its counterpart, so
/// that it crosses the network once, and all ranks of a host send at once.
class Counterparts {
 public:
  explicit Counterparts(const Group& group);

  int hosts() const { return static_cast<int>(on_.size()); }
  /// This rank's.
  int host() const { return host_; }
  int host_of(int position) const { return host_of_[static_cast<std::size_t>(position)]; }
  /// Positions on a host, ascending.
  const std::vector<int>& on(int host) const { return on_[static_cast<std::size_t>(host)]; }
  /// The positions on this rank's host, from this rank on and round: itself first.
  const std::vector<int>& row() const { return row_; }
  /// Where a position stands on its host.
  int place(int position) const { return place_[static_cast<std::size_t>(position)]; }
  /// The counterpart of a position on a host: itself on its own.
  int of(int position, int host) const;
  /// Positions on other hosts whose counterpart on its host this one is, ascending.
  std::vector<int> served_by(int position) const;
  /// Ranks on the host that has most of them.
  int largest_host() const;
  /// served_by() of any position has at most so many.
  int most_served() const;

 private:
  int host_;
  std::vector<std::vector<int>> on_;
  std::vector<int> host_of_, place_, row_;
};

}  // namespace capstan
