// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/error.hpp"
#include "core/engine/control/wait.hpp"

namespace capstan {

/// The view that a rank has of another one when it looks for the rank that keeps it waiting.
struct RankView {
  Wait wait{};
  bool quiet = false;    ///< it has shown no sign of life for so long that it no longer runs
  bool stopped = false;  ///< the kernel says so
  bool moved_lately = false;
  std::optional<std::string> departed{};  ///< why it can no longer answer
  bool left = false;                      ///< departed, as it has destroyed its communicator

  /// It waits, or has given up, for others: these keep it from continuing.
  bool leads_on() const;
  /// The state of a rank that does not lead on.
  Culprit::State state() const;
};

/// The graph of waits between the ranks of a world, over all its communicators: an edge leads from
/// a rank that waits to one that it waits for. Ranks are those of the world.
class WaitGraph {
 public:
  struct Suspect {
    Rank rank;
    Culprit::State state{};
    std::vector<Rank> waiters{};          ///< those that wait for it, directly or by way of others
    std::chrono::milliseconds longest{};  ///< the longest of their waits
    Wait wait{};                          ///< of one that waits for it directly
    Rank waiter{};                        ///< that one
  };
  struct Edge {
    Rank from, to;
  };

  /// `views` has an entry for each rank; that of `self` has a wait.
  WaitGraph(Rank self, ByRank<RankView> views);

  /// The ranks at the ends of all chains that begin at `self`, in rising order; where chains have
  /// no end, the ranks of a circle.
  const std::vector<Suspect>& suspects() const { return suspects_; }
  /// All waits that lead to a suspect.
  const std::vector<Edge>& edges() const { return edges_; }
  const RankView& view(Rank rank) const { return views_[rank]; }
  Rank self() const { return self_; }
  /// Every suspect has moved just now: in a moment it may wait, too, and lead on.
  bool is_unsettled() const;

 private:
  std::span<const Rank> awaited_by(Rank rank) const;
  std::vector<Rank> ends() const;
  std::vector<Rank> circle() const;
  Suspect suspect(Rank rank) const;
  std::vector<Rank> waiters_for(Rank rank) const;

  const Rank self_;
  const ByRank<RankView> views_;
  std::vector<Suspect> suspects_;
  std::vector<Edge> edges_;
};

}  // namespace capstan
