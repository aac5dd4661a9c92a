// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/schedule/lowering/protocol.hpp"
#include "core/schedule/simulation/cluster_run.hpp"

namespace capstan {

/// A call by one algorithm on a cluster.
struct ClusterCall {
  Call call;
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  Elements block{};  ///< the length of a block, of each rank's part where there are parts
  Disturbance disturbance{};
  bool every_rank = false;  ///< do not simulate one rank for many
  /// Steps that are simulated at most; of longer streams some blocks are, and the others take as
  /// long as the last ones of these.
  std::uint64_t most_steps = 200'000'000;
};

/// A simulated call.
struct Forecast {
  ClusterRun run;
  Call call;  ///< as it was simulated: where one rank stands for many, blocks are equally long
  std::uint64_t blocks = 1, simulated_blocks = 1;
  double time = 0;    ///< of all blocks, in nanoseconds
  TimeSplit split{};  ///< where it goes, on the critical path
};

/// Which ranks are simulated: those of one host, where the algorithm declares that all ranks do the
/// same, the network treats all alike and nothing disturbs them; else all.
RankClasses classes_of(const ClusterCall& call, const Cluster& cluster);

/// Builds the schedules of the ranks, lowers them to the programs that would run, and runs these on
/// the cluster. A pure function.
Forecast forecast(const ClusterCall& call, const Cluster& cluster);

/// About the number of steps that a simulation of the call would run: as many for each rank as for
/// rank 0. Cheap.
std::uint64_t steps_of(const ClusterCall& call, const Cluster& cluster);

/// A time that the call takes at least, from what rank 0 has to do; in nanoseconds. Cheap.
double least_time(const ClusterCall& call, const Cluster& cluster);

}  // namespace capstan
