// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/custom/proven_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/custom_algorithm.hpp"

namespace capstan {
namespace {

/// Bounds what is kept: a program that never repeats a call does not fill the memory.
constexpr std::size_t most_known = 4096;

std::string text_of(const PlannedCall& planned) {
  return fmt::format("{} by '{}' on {} ranks", to_string(planned.call),
                     planned.choice.algorithm->name, planned.hosts.ranks());
}

/// Whether sums are added in the order for which the algorithm was chosen.
bool keeps_order(const PlannedCall& planned, const Guarantees& guarantees, Reproducible promise) {
  return promise == Reproducible::shape && planned.choice.algorithm->guarantees.host_ordered_sum
             ? guarantees.host_ordered_sum
             : adds_in_rank_order(guarantees, planned.call);
}

/// Refuses a call that needs what its schedules do not guarantee at its size.
void check_needs(const PlannedCall& planned, const Guarantees& guarantees,
                 const ProofPolicy& policy) {
  const Call& call = planned.call;
  const Reproducible promise = call.promise.value_or(policy.reproducible);
  if (reduces(call.collective) && call.user && !call.user->commutative && !guarantees.ordered)
    throw AlgorithmRefused(
        fmt::format("{} does not run: the operation is not commutative, and at this size the "
                    "schedules do not keep the order of ranks",
                    text_of(planned)),
        Rank{0}, -1);
  if (promise > Reproducible::run && rounds(call) && !keeps_order(planned, guarantees, promise))
    throw AlgorithmRefused(
        fmt::format(
            "{} does not run: at this size its sums are not added one after the other in the "
            "order of ranks, so that they are not reproducible: leave CAPSTAN_REPRODUCIBLE at run, "
            "or let another algorithm run such calls",
            text_of(planned)),
        Rank{0}, -1);
  if (promise != Reproducible::none && rounds(call) && !guarantees.same_sums)
    throw AlgorithmRefused(
        fmt::format("{} does not run: ranks add in different orders, so that the results of ranks "
                    "may differ in their last bits: where that does not matter, set "
                    "CAPSTAN_REPRODUCIBLE=none",
                    text_of(planned)),
        Rank{0}, -1);
}

/// The digest of everything on which the proof of a plan depends.
proof::Digest::Value key_of(const PlannedCall& planned, const proof::Digest::Value& schedules,
                            const ProofPolicy& policy) {
  proof::Digest digest;
  for (const std::uint64_t word : schedules) digest.add(word);
  const Call& call = planned.call;
  digest.add(static_cast<std::uint64_t>(call.collective) |
             static_cast<std::uint64_t>(planned.choice.protocol) << 8);
  digest.add(call.element().value());
  digest.add(call.shape.count);
  digest.add(static_cast<std::uint64_t>(call.shape.root));
  for (const Elements count : call.shape.counts) digest.add(count);
  digest.add(planned.block);
  digest.add(planned.long_read.value());
  for (const SlotKind kind : all_slot_kinds) digest.add(planned.layout.region(kind).value());
  digest.add(std::uint64_t{planned.layout.pool().cuts_packets});
  for (const Rank rank : all_ranks(planned.hosts.ranks()))
    digest.add(static_cast<std::uint64_t>(planned.hosts.host_of(rank)));
  digest.add(static_cast<std::uint64_t>(policy.limit.count()) << 1 |
             std::uint64_t{policy.trusts_beyond_limit});
  return digest.value();
}

}  // namespace

proof::Budget budget_of(const ProofPolicy& policy) {
  return proof::Budget{static_cast<std::uint64_t>(policy.limit.count())};
}

void refuse_long(const PlannedCall& planned, const ProofPolicy& policy) {
  const auto seconds = std::chrono::duration<double>{policy.limit}.count();
  throw AlgorithmRefused(
      fmt::format("the proof of {} would take more than {:g} s, so it does not run: raise "
                  "CAPSTAN_PROOF_LIMIT (seconds), or let such calls run without a proof by "
                  "CAPSTAN_PROOF_LIMIT=trust",
                  text_of(planned), seconds),
      Rank{0}, -1);
}

void refuse_algorithm(const Algorithm& algorithm, const Hosts& hosts, const AlgorithmProof& proof) {
  const auto& findings = proof.findings;
  auto blamed = std::ranges::find_if(findings, [](const auto& flaw) { return flaw.step >= 0; });
  if (blamed == findings.end()) blamed = findings.begin();
  std::string all;
  for (const AlgorithmFlaw& flaw : findings) all += "\n  " + flaw.text;
  throw AlgorithmRefused(
      fmt::format("the proof of {} by '{}' on {} ranks failed, so it does not run: correct the "
                  "steps that are named{}",
                  name_of(algorithm.collective), algorithm.name, hosts.ranks(), all),
      blamed->rank, blamed->step);
}

ProvenPlans& ProvenPlans::of_process() {
  static auto* const plans = new ProvenPlans;  // communicators may outlive statics
  return *plans;
}

Plan ProvenPlans::make(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
                       const PlanLimits& limits, const SlotLayout& layout,
                       const ProofPolicy& policy) {
  const bool alone = hosts.ranks() == 1;  // which copies
  if (choice.algorithm->source && !alone)
    return make_added(call, choice, hosts, self, limits, layout, policy);
  if (policy.built_in && !alone)
    prove_built_in({.call = call,
                    .choice = choice,
                    .hosts = hosts,
                    .block = block_length(call, choice, hosts, limits, layout),
                    .layout = layout,
                    .long_read = limits.long_read},
                   policy);
  return make_plan(call, choice, hosts, self, limits, layout);
}

/// The plan is made of the very schedules that were proven, and peers compare their digest.
Plan ProvenPlans::make_added(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
                             const PlanLimits& limits, const SlotLayout& layout,
                             const ProofPolicy& policy) {
  const KeptSchedules schedules{*choice.algorithm};
  Algorithm algorithm = *choice.algorithm;
  algorithm.source = &schedules;
  Choice kept = choice;
  kept.algorithm = &algorithm;
  const PlannedCall planned{.call = call,
                            .choice = kept,
                            .hosts = hosts,
                            .block = block_length(call, kept, hosts, limits, layout),
                            .layout = layout,
                            .long_read = limits.long_read};
  const Key digest = digest_of_schedules(planned);
  algorithm.guarantees = guarantees_of(planned, digest, policy);
  algorithm.digest = digest[0] | 1;  // 0: built in
  Plan plan = make_plan(call, kept, hosts, self, limits, layout);
  plan.algorithm = choice.algorithm;
  return plan;
}

Guarantees ProvenPlans::guarantees_of(const PlannedCall& planned, const Key& schedules,
                                      const ProofPolicy& policy) {
  const std::scoped_lock lock{mutex_};
  if (known_.size() >= most_known) known_.clear();
  if (proven_.size() >= most_known) proven_.clear();
  const Key key = key_of(planned, schedules, policy);
  auto known = known_.find(key);
  if (known == known_.end()) {
    proof::Budget budget = budget_of(policy);
    std::optional<DerivedProof> derived;  // none: it takes too long
    try {
      derived = derive_guarantees(planned, budget, proven_);
    } catch (const proof::TooMuchWork&) {
      if (policy.trusts_beyond_limit) derived.emplace();  // it promises nothing
    }
    known = known_.emplace(key, std::move(derived)).first;
  }
  if (!known->second) refuse_long(planned, policy);
  const DerivedProof& result = *known->second;
  if (!result.proof.ok()) refuse_algorithm(*planned.choice.algorithm, planned.hosts, result.proof);
  check_needs(planned, result.guarantees, policy);
  return result.guarantees;
}

void ProvenPlans::prove_built_in(const PlannedCall& planned, const ProofPolicy& policy) {
  const std::scoped_lock lock{mutex_};
  if (proven_.size() >= most_known) proven_.clear();
  proof::Budget budget = budget_of(policy);
  try {
    if (const AlgorithmProof proof = prove_plan(planned, budget, proven_); !proof.ok())
      refuse_algorithm(*planned.choice.algorithm, planned.hosts, proof);
  } catch (const proof::TooMuchWork&) {
    if (!policy.trusts_beyond_limit) refuse_long(planned, policy);
  }
}

}  // namespace capstan
