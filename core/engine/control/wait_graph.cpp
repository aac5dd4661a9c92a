// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/wait_graph.hpp"

#include <algorithm>

namespace capstan {

bool RankView::leads_on() const {
  if (wait.peers.empty()) return false;
  if (wait.gave_up) return true;
  return wait.kind != Wait::Kind::none && !departed && !stopped && !quiet;
}

Culprit::State RankView::state() const {
  if (departed) return left ? Culprit::State::left : Culprit::State::dead;
  if (stopped) return Culprit::State::stopped;
  if (wait.kind != Wait::Kind::none)
    return quiet ? Culprit::State::silent : Culprit::State::waiting;
  return Culprit::State::absent;
}

WaitGraph::WaitGraph(Rank self, ByRank<RankView> views) : self_(self), views_(std::move(views)) {
  std::vector<Rank> found = ends();
  // A rank that runs, and is merely between two calls, is innocent where another is not.
  const auto runs = [&](Rank rank) {
    return views_[rank].moved_lately && views_[rank].state() == Culprit::State::absent;
  };
  if (!std::ranges::all_of(found, runs)) std::erase_if(found, runs);
  if (found.empty()) found = circle();
  std::ranges::sort(found);
  for (const Rank rank : found) suspects_.push_back(suspect(rank));
  for (int from = 0; from < views_.size(); ++from)
    for (const Rank to : awaited_by(Rank{from}))
      if (std::ranges::any_of(suspects_, [&](const Suspect& s) {
            return s.rank == to || std::ranges::binary_search(s.waiters, to);
          }))
        edges_.push_back({Rank{from}, to});
}

bool WaitGraph::is_unsettled() const {
  return std::ranges::all_of(suspects_, [&](const Suspect& suspect) {
    return suspect.state == Culprit::State::absent && views_[suspect.rank].moved_lately;
  });
}

std::span<const Rank> WaitGraph::awaited_by(Rank rank) const {
  const RankView& view = views_[rank];
  if (rank != self_ && !view.leads_on()) return {};
  return view.wait.peers;
}

/// The ranks that can be reached and lead no further.
std::vector<Rank> WaitGraph::ends() const {
  std::vector<Rank> found, next{self_};
  ByRank<char> reached(views_.size());
  reached[self_] = 1;
  while (!next.empty()) {
    const Rank rank = next.back();
    next.pop_back();
    if (rank != self_ && !views_[rank].leads_on()) found.push_back(rank);
    for (const Rank to : awaited_by(rank))
      if (!std::exchange(reached[to], 1)) next.push_back(to);
  }
  return found;
}

/// Where no chain ends, the first of each rank's edges leads into a circle.
std::vector<Rank> WaitGraph::circle() const {
  std::vector<Rank> trail;
  Rank at = self_;
  while (std::ranges::find(trail, at) == trail.end()) {
    if (awaited_by(at).empty()) return {};
    trail.push_back(at);
    at = awaited_by(at).front();
  }
  return {std::ranges::find(trail, at), trail.end()};
}

WaitGraph::Suspect WaitGraph::suspect(Rank rank) const {
  Suspect suspect{.rank = rank, .state = views_[rank].state(), .waiters = waiters_for(rank)};
  if (rank == self_) suspect.state = Culprit::State::waiting;
  for (const Rank waiter : suspect.waiters) {
    const Wait& wait = views_[waiter].wait;
    suspect.longest = std::max(suspect.longest, wait.waited);
    const bool directly = std::ranges::find(wait.peers, rank) != wait.peers.end();
    if (directly && wait.lost && suspect.state != Culprit::State::left)
      suspect.state = Culprit::State::dead;
    const bool better = suspect.wait.kind == Wait::Kind::none || waiter == self_;
    if (directly && better && !wait.gave_up) suspect.wait = wait, suspect.waiter = waiter;
  }
  return suspect;
}

/// In rising order.
std::vector<Rank> WaitGraph::waiters_for(Rank rank) const {
  ByRank<char> waits(views_.size());
  std::vector<Rank> next{rank};
  while (!next.empty()) {
    const Rank to = next.back();
    next.pop_back();
    for (int from = 0; from < views_.size(); ++from) {
      const auto awaited = awaited_by(Rank{from});
      if (!waits[Rank{from}] && std::ranges::find(awaited, to) != awaited.end()) {
        waits[Rank{from}] = 1;
        next.emplace_back(from);
      }
    }
  }
  std::vector<Rank> found;
  for (int from = 0; from < views_.size(); ++from)
    if (waits[Rank{from}] && Rank{from} != rank) found.emplace_back(from);
  return found;
}

}  // namespace capstan
