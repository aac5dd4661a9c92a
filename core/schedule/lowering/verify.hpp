// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/proof/prove.hpp"

namespace capstan {

/// One call as the executor runs it.
struct LoweredCall {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  Shape shape{};
  Elements block{};  ///< elements per block of a stream; 0: one block for all

  bool operator==(const LoweredCall&) const = default;
};

/// The claims that follow from guarantees. `hosts` is kept by reference; null: nothing is claimed
/// of hosts' sums.
inline proof::Claims claims_of(const Guarantees& guarantees, const Hosts* hosts = nullptr) {
  const bool claims_hosts = guarantees.host_ordered_sum && hosts;
  return {.ordered = guarantees.ordered,
          .same_sums = guarantees.same_sums,
          .left_fold = guarantees.left_fold,
          .rank_ordered_sum = guarantees.rank_ordered_sum,
          .host_ordered_sum = claims_hosts,
          .hosts = claims_hosts ? hosts : nullptr};
}

/// So few slots, and such short ones, that a few calls use all of them, of several kinds. With more
/// slots fewer flaws would show.
inline constexpr SlotPool fewest_slots{.count = {.tiny_packets = 4,
                                                 .small_packets = 4,
                                                 .packets = 4,
                                                 .tiny_staging = 3,
                                                 .small_staging = 3,
                                                 .staging = 3},
                                       .region = {.tiny_packets = Bytes{320},
                                                  .small_packets = Bytes{640},
                                                  .packets = Bytes{std::uint64_t{1} << 40},
                                                  .tiny_staging = Bytes{512},
                                                  .small_staging = Bytes{1024},
                                                  .staging = Bytes{0}},
                                       .calls_per_notice = 2};

/// The digests of cases, with the work of their proofs: see proof::Case.
using ProvenCases = std::map<proof::Digest::Value, std::uint64_t>;

struct LoweredProofOptions {
  bool in_place = false;            ///< output and input share memory
  proof::Budget* budget = nullptr;  ///< null: none
  /// Cases that are proven already. A new one is added. A known one costs its work all the same, so
  /// that what is refused does not depend on what a process has proven before. Null: none is known.
  ProvenCases* proven = nullptr;
  SlotPool slots = fewest_slots;
  /// For tests that wrong programs are refused: these change a bound program, and the rotation of a
  /// rank before a call, numbered from 0.
  std::function<void(BoundProgram&)> change_program{};
  std::function<void(Rank, int call, SlotRotation&)> change_rotation{};
};

/// The plans of all ranks for calls that follow one another.
using PlannedCalls = std::vector<const ByRank<Plan>*>;

/// Proves that plans, with programs that the executor runs, keep the promises of the collectives
/// and of their algorithms, with the executor's own rotation of slots and notices. `layout`: the
/// slots that the plans are bound to.
proof::Result prove_plans(const PlannedCalls& calls, const Hosts& hosts, const SlotLayout& layout,
                          const LoweredProofOptions& options = {});

/// Proves that the bound programs of all ranks, which the executor runs, keep the promises of the
/// collectives, as prove_schedules does for schedules. The calls may be of any kind and follow one
/// another on one communicator.
proof::Result prove_programs(const std::vector<LoweredCall>& calls, const Hosts& hosts,
                             const LoweredProofOptions& options = {});

}  // namespace capstan
