// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/control/process.hpp"
#include "core/engine/control/segment.hpp"

namespace capstan {

/// Ranks of a job that are on one host.
struct RanksOnHost {
  std::string host;
  std::vector<std::pair<int, int>> runs{};  ///< the first and the last rank of each row of them

  bool has(int rank) const;
};
/// "ranks 2 to 5 and 8 are on b".
std::string to_string(const RanksOnHost& ranks);
/// The hosts of a world besides that of `self`, in the order of their first ranks.
std::vector<RanksOnHost> other_hosts(const ByRank<Process>& processes, Rank self);

/// The place of a rank in its job, for processes that look at its segment from outside.
struct JobMember {
  std::uint64_t world = 0;  ///< equal on the ranks of one world, and on no others
  int rank = 0, ranks = 1;
  int process = 0;  ///< as the rank itself sees its number
  /// Where other ranks are: of many hosts the first ones.
  std::vector<RanksOnHost> elsewhere{};
};

void publish(JobRecord& record, const JobMember& member);

/// Nothing where the record is none, or of another version of the library.
std::optional<JobMember> read(const JobRecord& record);

}  // namespace capstan
