// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "capstan/by_rank.hpp"
#include "capstan/error.hpp"
#include "core/engine/control/process.hpp"

namespace capstan {

/// How texts name ranks: as those of one communicator and of the world, with host and process.
class RankNames {
 public:
  /// `world_ranks` holds the rank in the world of each member of the communicator. `processes`, one
  /// per rank of the world, lives longer than this object.
  RankNames(const ByRank<int>& world_ranks, const ByRank<Process>& processes);

  /// The rank in the communicator of a rank of the world.
  std::optional<Rank> member(Rank world_rank) const;
  /// "rank 3"; in a group "rank 1 (rank 3 of the world)".
  std::string brief(Rank world_rank) const;
  /// "rank 3 (host b, process 4711)"; in a group also its rank in the world.
  std::string full(Rank world_rank) const;
  /// "", or for a group " of the group of ranks 1, 3 and 5 of the world".
  const std::string& of_group() const { return of_group_; }
  Culprit culprit(Rank world_rank, Culprit::State state) const;

 private:
  std::string name(Rank world_rank, const std::string& more) const;

  const ByRank<Process>& processes_;
  ByRank<Rank> members_;  // by rank of the world; -1: none
  bool is_world_;
  std::string of_group_;
};

/// "rank 3", "ranks 1, 2 and 3"; of many the first and how many more. "its peers" if there is none.
std::string list_of(std::span<const Rank> ranks);

}  // namespace capstan
