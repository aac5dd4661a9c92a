// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "core/engine/control/rank_names.hpp"
#include "core/engine/control/wait_graph.hpp"

namespace capstan {

/// The ranks that keep one rank waiting, as text for an error and as values for programs.
class Diagnosis {
 public:
  Diagnosis(const RankNames& names, WaitGraph graph) : names_(names), graph_(std::move(graph)) {}

  /// The culprits may have come just now: ask again in a moment.
  bool is_unsettled() const { return graph_.is_unsettled(); }
  /// Somebody who keeps this rank waiting is gone.
  bool is_loss() const;
  std::vector<Culprit> culprits() const;
  /// `directly` if it is gone, else the first that is, as a rank of the communicator; `directly`,
  /// too, if none is a member.
  Rank lost(Rank directly) const;

  /// "rank 3 (host b, process 4711) has not called all_reduce(8 x f32, sum) by flat #640; 2 ranks
  /// wait for it, the longest 12.4 s", for each of the culprits.
  std::string verdict() const;
  /// Advice to the user on what to do about the culprits.
  std::string advice() const;
  /// "Who waits for whom: rank 0 for rank 1 in a receive with tag 7, 1.0 s; ...".
  std::string chain() const;

  /// The error: PeerLost if somebody is gone, TimedOut otherwise. `what`: what this rank waited
  /// for; `directly`: for whom.
  std::exception_ptr error(const std::string& what, Rank directly) const;

 private:
  std::string verdict_on(const WaitGraph::Suspect& suspect) const;
  std::string edge(const WaitGraph::Edge& edge) const;

  const RankNames& names_;
  const WaitGraph graph_;
};

}  // namespace capstan
