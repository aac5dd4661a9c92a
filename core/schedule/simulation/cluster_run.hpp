// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/schedule/simulation/cluster.hpp"
#include "core/schedule/simulation/script.hpp"

namespace capstan {

/// Ranks of which one stands for many, as all of them do the same. Rank r is like rank r mod
/// `simulated`: moved along the circle of ranks, or exchanged bit by bit.
struct RankClasses {
  int ranks = 1;
  int simulated = 1;  ///< ranks 0 .. simulated-1; all of them: `ranks`
  bool exclusive_or = false;

  bool all() const { return simulated == ranks; }
  Rank like(Rank rank) const { return Rank{rank.value() % simulated}; }
  /// `other` as the rank that `rank` is like sees it.
  Rank seen(Rank other, Rank rank) const {
    const int moved = rank.value() - like(rank).value();
    if (exclusive_or) return Rank{other.value() ^ moved};
    return Rank{(other.value() - moved + ranks) % ranks};
  }
};

/// The scripts of one rank: of most blocks, and of the last one where that is shorter.
struct RankScripts {
  Script usual, last;
  bool differs = false;  ///< `last` is in use
};

/// The disturbances of the ranks.
struct Disturbance {
  std::vector<double> late;    ///< by rank: when it makes the call; empty: all at once
  std::vector<double> slower;  ///< by rank: a factor of its own work; empty: none
};

/// Where the time of a rank, or of a path through ranks, went.
struct TimeSplit {
  double overhead = 0;  ///< of calls, messages and flags
  double work = 0;      ///< combining and copying
  double transfer = 0;  ///< bytes on links and out of the memory of others
  double latency = 0;   ///< of links and switches
  double queueing = 0;  ///< for links and memory that others use
  double late = 0;      ///< until a late rank made the call

  double total() const { return overhead + work + transfer + latency + queueing + late; }
  /// The parts of both; `times` those of the other one.
  TimeSplit plus(const TimeSplit& other, double times) const {
    return {overhead + times * other.overhead, work + times * other.work,
            transfer + times * other.transfer, latency + times * other.latency,
            queueing + times * other.queueing, late + times * other.late};
  }
};

/// A message as one of the ranks saw it, or a read of a peer's memory.
struct ClusterEvent {
  double begin = 0, end = 0;
  float work = 0;      ///< of the rank since the event before
  float latency = 0;   ///< of the way, where the rank waited for the message
  float queueing = 0;  ///< on the way, or for memory
  float moving = 0;    ///< bytes on the way, where the rank waited for them
  float bytes = 0;
  std::int32_t peer = 0;        ///< the rank at the other end; simulated or like a simulated one
  std::uint32_t sent = 0;       ///< wait: the event of the sender
  std::uint32_t step : 24 = 0;  ///< of the schedule
  bool is_wait : 1 = false, is_send : 1 = false;
  bool blocked : 1 = false;  ///< wait: the message came after the rank was there
};

struct LinkLoad {
  int link = 0;  ///< of the fabric; from links() on the memory of a rank
  double bytes = 0, busy = 0;
};

/// One call on a cluster.
struct ClusterRun {
  double time = 0;  ///< from the first rank's call to the last one's end
  Rank slowest{};
  RankClasses classes{};
  std::uint64_t steps = 0, messages = 0;          ///< that were simulated
  std::vector<double> finished;                   ///< by simulated rank
  std::vector<double> last_work;                  ///< by simulated rank: after its last event
  std::vector<LinkLoad> loads;                    ///< of links that carried anything
  std::vector<std::vector<ClusterEvent>> events;  ///< by simulated rank
};

/// Runs the scripts of all simulated ranks, `blocks` blocks each, by an event queue: messages and
/// reads take their links in the order of time, each link one after the other. A message leaves a
/// switch before it has come in whole. Where only some ranks are simulated the fabric has to be
/// uniform. A pure function. Throws Error when a rank waits for ever.
ClusterRun run_on_cluster(const Cluster& cluster, const RankClasses& classes,
                          const std::vector<RankScripts>& scripts, std::uint64_t blocks,
                          const Disturbance& disturbance = {});

/// A message on the critical path, or the first and the last part of the path.
struct PathHop {
  Rank from{}, to{};
  double bytes = 0;
  double sent = 0, received = 0, queueing = 0;
  std::uint32_t step = 0;  ///< of the schedule of `from`
};

/// The chain of steps and messages that the end of the slowest rank depends on.
struct CriticalPath {
  std::vector<PathHop> hops;  ///< in the order of time
  TimeSplit split;
};

CriticalPath critical_path(const ClusterRun& run, const Disturbance& disturbance = {});

}  // namespace capstan
