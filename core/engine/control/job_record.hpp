// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/engine/control/segment.hpp"

namespace capstan {

/// The place of a rank in its job, for processes that look at its segment from outside.
struct JobMember {
  std::uint64_t world = 0;  ///< equal on the ranks of one world, and on no others
  int rank = 0, ranks = 1;
  int process = 0;  ///< as the rank itself sees its number
};

void publish(JobRecord& record, const JobMember& member);

/// Nothing where the record is none, or of another version of the library.
std::optional<JobMember> read(const JobRecord& record);

}  // namespace capstan
