// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan::perf {

/// Where a rank runs.
struct ProcessOfRank {
  std::string host;
  int pid = 0;
  int core = -1;    ///< on which it ran when it was asked
  int device = -1;  ///< the number that it asked for, of a GPU; -1: none
};

/// The processes of all ranks, by rank. All ranks call it, each with the number of its device.
std::vector<ProcessOfRank> processes_of(Communicator& world, int device);

/// "# rank 0: node1, pid 4711, core 2", a line for each rank.
std::string to_lines(const std::vector<ProcessOfRank>& processes);
nlohmann::json to_json(const std::vector<ProcessOfRank>& processes);

}  // namespace capstan::perf
