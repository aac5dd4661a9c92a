// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "capstan/reproducible.hpp"
#include "core/schedule/lowering/prove_plan.hpp"

namespace capstan {

/// How the plans of a communicator are proven before they run: the same on all ranks.
struct ProofPolicy {
  bool built_in = false;                          ///< also those of built-in algorithms
  std::chrono::nanoseconds limit{1'000'000'000};  ///< of one plan's proof
  bool trusts_beyond_limit = false;               ///< what would take longer runs without a proof
  Reproducible reproducible = Reproducible::run;  ///< of calls without a promise
};

/// Makes plans, and proves them first where their algorithm was added at run time. What has been
/// proven is kept for all communicators of the process. Thread-safe.
class ProvenPlans {
 public:
  static ProvenPlans& of_process();

  /// See make_plan(). Throws AlgorithmRefused.
  Plan make(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
            const PlanLimits& limits, const SlotLayout& layout, const ProofPolicy& policy);

 private:
  using Key = proof::Digest::Value;

  Plan make_added(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
                  const PlanLimits& limits, const SlotLayout& layout, const ProofPolicy& policy);
  Guarantees guarantees_of(const PlannedCall& planned, const Key& schedules,
                           const ProofPolicy& policy);
  void prove_built_in(const PlannedCall& planned, const ProofPolicy& policy);

  std::recursive_mutex mutex_;  // functions of the program are asked meanwhile
  std::map<Key, std::optional<DerivedProof>> known_;  // by planned call; none: it takes too long
  ProvenCases proven_;
};

/// The work that a proof may take.
proof::Budget budget_of(const ProofPolicy& policy);
/// Throws AlgorithmRefused for a proof that takes more.
[[noreturn]] void refuse_long(const PlannedCall& planned, const ProofPolicy& policy);
/// Throws AlgorithmRefused with all findings of a proof that has failed.
[[noreturn]] void refuse_algorithm(const Algorithm& algorithm, const Hosts& hosts,
                                   const AlgorithmProof& proof);

}  // namespace capstan
