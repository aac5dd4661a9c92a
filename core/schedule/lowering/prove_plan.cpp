// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/prove_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/schedule/lowering/verify.hpp"
#include "core/schedule/proof/prove.hpp"

namespace capstan {

struct KeptSchedules::Kept {
  std::map<int, std::vector<std::pair<Shape, Schedule>>> by_position;
};

KeptSchedules::KeptSchedules(const Algorithm& algorithm)
    : algorithm_(algorithm), kept_(std::make_unique<Kept>()) {}
KeptSchedules::~KeptSchedules() = default;

Schedule KeptSchedules::schedule(const Group& group, const Shape& shape) const {
  auto& all = kept_->by_position[group.position()];
  for (const auto& [known, schedule] : all)
    if (known == shape) return schedule;
  return all.emplace_back(shape, algorithm_.schedule(group, shape)).second;
}

namespace {

/// The most equal blocks in a row that are proven. Slots rotate over three, so each is used twice.
constexpr std::size_t most_alike = 6;

/// Few slots, as long as those of the communicator: a few calls use all of them.
SlotLayout few_slots(const PlannedCall& planned) {
  SlotPool pool = planned.layout.pool();
  const Bytes staging = pool.region.staging;
  pool.count = fewest_slots.count;
  pool.calls_per_notice = fewest_slots.calls_per_notice;
  return {planned.hosts.ranks(), staging, pool};
}

void add_to(proof::Digest& digest, const Span& span) {
  digest.add(static_cast<std::uint64_t>(span.buffer));
  digest.add(span.offset);
  digest.add(span.length);
}

void add_to(proof::Digest& digest, const Schedule& schedule) {
  const auto& [input, output, scratch] = schedule.extents();
  for (const Elements extent : {input, output, scratch}) digest.add(extent);
  digest.add(schedule.steps().size() << 8 | static_cast<std::uint64_t>(schedule.phases()));
  for (const Step& step : schedule.steps()) {
    digest.add(static_cast<std::uint64_t>(step.verb) | std::uint64_t{step.completes} << 8 |
               std::uint64_t{step.phase} << 16 | std::uint64_t{step.source_count} << 32);
    digest.add(step.peer);
    add_to(digest, step.destination);
    for (const Span& source : schedule.sources(step)) add_to(digest, source);
  }
}

/// Proves one call's plan.
class PlanProver {
 public:
  PlanProver(const PlannedCall& planned, proof::Budget& budget, ProvenCases& proven)
      : planned_(planned),
        budget_(budget),
        proven_(proven),
        few_(with_few_blocks(planned.call, planned.block)),
        layout_(few_slots(planned)) {
    const auto blocks = block_shapes(few_, planned.block);
    is_stream_ = blocks.size() > 1;
    for (const Shape& shape : blocks)
      if (std::ranges::find(shapes_, shape) == shapes_.end()) shapes_.push_back(shape);
  }

  DerivedProof look_at_schedules() {
    DerivedProof all{.guarantees = everything()};
    for (const Shape& shape : shapes_) {
      all += derive_from_schedules(*planned_.choice.algorithm, planned_.hosts, shape, &budget_);
      if (!all.proof.ok()) break;
    }
    all.guarantees.bounded_skew = all.guarantees.bounded_skew && is_stream_;
    return all;
  }

  AlgorithmProof prove(const Guarantees& claimed) {
    Algorithm algorithm = *planned_.choice.algorithm;
    algorithm.guarantees = claimed;
    Choice choice = planned_.choice;
    choice.algorithm = &algorithm;
    pay_for_lowering(algorithm);
    const auto plans =
        make_plans(few_, choice, planned_.hosts, planned_.block, layout_, planned_.long_read);
    const std::size_t calls = is_stream_ ? 3 : 5;
    AlgorithmProof proof;
    for (const bool in_place : {true, false}) {
      if (in_place && !may_be_in_place(algorithm, choice.protocol)) continue;
      const auto result =
          prove_plans(PlannedCalls(calls, &plans), planned_.hosts, layout_,
                      {.in_place = in_place, .budget = &budget_, .proven = &proven_});
      add(result, few_.shape, fmt::format("{}{}", in_place ? "in place, " : "", choice.manner()),
          proof);
      if (!proof.ok()) break;
    }
    return proof;
  }

 private:
  /// The schedules of all ranks become programs.
  void pay_for_lowering(const Algorithm& algorithm) {
    constexpr std::uint64_t step_cost = 600;
    for (const Shape& shape : shapes_)
      for (const Schedule& schedule : schedules_of(algorithm, planned_.hosts, shape))
        budget_.spend(step_cost * schedule.steps().size());
  }

  void add(const proof::Result& result, const Shape& shape, std::string_view form,
           AlgorithmProof& proof) const {
    ++proof.proofs;
    const std::string text = name_of_case(*planned_.choice.algorithm, planned_.hosts, shape, form);
    for (const proof::Finding& finding : result.findings)
      proof.findings.push_back(flaw_of(finding, text));
  }

  const PlannedCall& planned_;
  proof::Budget& budget_;
  ProvenCases& proven_;
  const Call few_;
  const SlotLayout layout_;
  bool is_stream_ = false;
  std::vector<Shape> shapes_;
};

}  // namespace

Call with_few_blocks(const Call& call, Elements block) {
  const auto shapes = block_shapes(call, block);
  std::vector<std::uint64_t> kept_before{0};  // blocks before each one, of those that are kept
  for (std::size_t b = 0, alike = 0; b < shapes.size(); ++b) {
    alike = b > 0 && shapes[b] == shapes[b - 1] ? alike + 1 : 0;
    kept_before.push_back(kept_before.back() + (alike < most_alike ? 1 : 0));
  }
  const auto shortened = [&](Elements count) {
    const std::uint64_t length = std::max<std::uint64_t>(block.value(), 1),
                        whole = std::min(count.value() / length, shapes.size());
    return Elements{kept_before[whole] * length + (count.value() - whole * length)};
  };
  Call few = call;
  few.op = ReduceOp::average;
  if (!has_counts(call.collective)) few.shape.count = shortened(call.shape.count);
  for (Elements& count : few.shape.counts) count = shortened(count);
  return few;
}

proof::Digest::Value digest_of_schedules(const PlannedCall& planned) {
  proof::Digest digest;
  std::vector<Shape> seen;
  for (const Shape& shape : block_shapes(planned.call, planned.block)) {
    if (std::ranges::find(seen, shape) != seen.end()) continue;
    seen.push_back(shape);
    for (const Schedule& schedule : schedules_of(*planned.choice.algorithm, planned.hosts, shape))
      add_to(digest, schedule);
  }
  return digest.value();
}

DerivedProof derive_guarantees(const PlannedCall& planned, proof::Budget& budget,
                               ProvenCases& proven) {
  PlanProver prover{planned, budget, proven};
  DerivedProof derived = prover.look_at_schedules();
  if (!derived.proof.ok()) return derived;
  const auto is_proven = [&] {
    derived.proof = prover.prove(derived.guarantees);
    return derived.proof.ok();
  };
  if (is_proven()) return derived;
  if (std::exchange(derived.guarantees.bounded_skew, false) && is_proven()) return derived;
  if (std::exchange(derived.guarantees.synchronizes, false)) is_proven();
  return derived;
}

AlgorithmProof prove_plan(const PlannedCall& planned, proof::Budget& budget, ProvenCases& proven) {
  PlanProver prover{planned, budget, proven};
  return prover.prove(planned.choice.algorithm->guarantees);
}

}  // namespace capstan
