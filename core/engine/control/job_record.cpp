// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/job_record.hpp"

#include "capstan/version.hpp"

namespace capstan {
namespace {

/// Control may differ from version to version.
constexpr std::uint64_t layout =
    0x6361'7073'7461'6e00 ^ (std::uint64_t{sizeof(Control)} << 32) ^
    ((CAPSTAN_VERSION_MAJOR << 16) | (CAPSTAN_VERSION_MINOR << 8) | CAPSTAN_VERSION_PATCH);

}  // namespace

void publish(JobRecord& record, const JobMember& member) {
  record.world = member.world;
  record.rank = member.rank, record.ranks = member.ranks, record.process = member.process;
  record.layout.store(layout, std::memory_order_release);
}

std::optional<JobMember> read(const JobRecord& record) {
  if (record.layout.load(std::memory_order_acquire) != layout) return std::nullopt;
  const JobMember member{record.world, record.rank, record.ranks, record.process};
  constexpr int most_ranks = 1 << 24;
  const bool possible = member.rank >= 0 && member.rank < member.ranks && member.ranks < most_ranks;
  return possible ? std::optional{member} : std::nullopt;
}

}  // namespace capstan
