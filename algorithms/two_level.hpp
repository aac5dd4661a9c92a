#pragma once

#include <vector>

#include "core/ir/group.hpp"

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

/// A group as hosts, each with a leader: its first rank, or the one that is asked for.
class Leaders {
 public:
  /// The host of position `root` is led by that.
  Leaders(const Group& group, int root);

  bool leads() const { return self_ == leader_; }
  /// Of this rank's host.
  Rank leader() const { return leader_; }
  /// The other ranks of this rank's host, if it leads.
  const std::vector<Rank>& followers() const { return followers_; }
  /// Of all hosts, in order; that of the root at root_host().
  const std::vector<Rank>& leaders() const { return leaders_; }
  int host() const { return host_; }
  int root_host() const { return root_host_; }

 private:
  Rank self_, leader_;
  int host_, root_host_;
  std::vector<Rank> followers_, leaders_;
};

}  // namespace capstan
