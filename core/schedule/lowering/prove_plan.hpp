// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/lowering/prove_algorithm.hpp"
#include "core/schedule/lowering/verify.hpp"
#include "core/schedule/proof/budget.hpp"
#include "core/schedule/proof/digest.hpp"

namespace capstan {

/// Schedules as their source gave them when it was first asked: what is proven is what runs, even
/// if the source would give others later. Not thread-safe.
class KeptSchedules final : public ScheduleSource {
 public:
  /// `algorithm` is kept by reference.
  explicit KeptSchedules(const Algorithm& algorithm);
  ~KeptSchedules() override;

  Schedule schedule(const Group& group, const Shape& shape) const override;

 private:
  struct Kept;
  const Algorithm& algorithm_;
  const std::unique_ptr<Kept> kept_;
};

/// A plan that is to be proven, as all ranks make it.
struct PlannedCall {
  const Call& call;
  const Choice& choice;  ///< its algorithm's schedules are pure, or kept
  const Hosts& hosts;
  Elements block{};
  const SlotLayout& layout;
  Bytes long_read{};
};

/// The same call with at most six equal blocks in a row, which stand for any number; of an average,
/// so that the marks of complete sums show in the divisors of operations.
Call with_few_blocks(const Call& call, Elements block);

/// The digest of all schedules that run in a call, of all ranks.
proof::Digest::Value digest_of_schedules(const PlannedCall& planned);

/// Proves the very plan that is about to run: the bound programs of all ranks, with the call's
/// type, protocol and blocks, called back to back, in place and not, with few
/// blocks. Cases that were proven before cost no proof. What the algorithm
/// guarantees is derived. Throws proof::TooMuchWork.
DerivedProof derive_guarantees(const PlannedCall& planned, proof::Budget& budget,
                               ProvenCases& proven);

/// The same for an algorithm that is held to the guarantees that it states.
AlgorithmProof prove_plan(const PlannedCall& planned, proof::Budget& budget, ProvenCases& proven);

}  // namespace capstan
