// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/control/wait_graph.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/tools/cli/ps/find_jobs.hpp"
#include "core/tools/cli/ps/stacks.hpp"

namespace capstan::cli {

/// A call of the world.
struct SeenCall {
  std::uint64_t number = 0;  ///< from 1
  CallMark mark{};
};

/// A rank as it can be seen from outside.
struct SeenRank {
  int rank = 0, process = 0;
  char state = 0;                         ///< see state_of(); 0: the process is gone
  std::uint64_t begun = 0, finished = 0;  ///< numbers of the last calls of the world
  std::string call{};                     ///< the last one
  std::vector<SeenCall> calls{};          ///< the last ones, in their order
  RankView view{};
  std::optional<Stacks> stacks{};  ///< of one that keeps others waiting, where they were asked for
};

/// A job at one moment.
struct SeenJob {
  std::uint64_t world = 0;
  int ranks = 0;
  std::string command{};
  std::vector<SeenRank> here{};
  std::string verdict{};  ///< who keeps others waiting; empty: no rank waits
  std::string chain{};    ///< who waits for whom
  std::vector<Culprit> culprits{};
  std::vector<int> elsewhere{};  ///< ranks on other machines that those here wait for
  std::vector<RanksOnHost> other_hosts{};
};

/// The ranks here that live and keep others waiting.
std::vector<const SeenRank*> living_culprits(const SeenJob& job);

/// Reads their stacks.
void read_stacks(SeenJob& job);

/// Looks at a job again and again for some time: what does not change meanwhile does not run.
SeenJob look_at(const Job& job, std::chrono::milliseconds time);

}  // namespace capstan::cli
