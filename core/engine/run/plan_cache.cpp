// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/plan_cache.hpp"

#include <limits>
#include <map>
#include <ranges>

#include "core/engine/run/agreement.hpp"
#include "core/engine/run/choice_log.hpp"
#include "core/platform/memory/huge_pages.hpp"

namespace capstan {
namespace {

/// Limits the plans kept: a program that never repeats a call does not fill the memory.
constexpr std::size_t most_plans = 1024;
/// Limits the kinds of calls that are tuned, for the same reason. The model chooses for the others.
constexpr std::size_t most_tuned = 256;

Call agreement_on_visibility(std::shared_ptr<const Call> about) {
  return Agreement{
      .count = sizeof(PeerMappedBuffers), .purpose = Purpose::visibility, .about = std::move(about)}
      .call();
}

}  // namespace

PlanCache::PlanCache(SelectionContext selection, PlanContext context, Hooks hooks)
    : choices_(std::move(selection)), context_(std::move(context)), hooks_(std::move(hooks)) {}

const CachedPlan* PlanCache::find(const Call& call) {
  if (last_ && last_->plan.call == call) return last_;
  const auto known = plans_.find(call);
  return known == plans_.end() ? nullptr : last_ = known->second.get();
}

/// A known plan runs until its tuner counts no further call. A measurement round is then due or
/// under way, and next_of() retires the plan.
PlanCache::Decision PlanCache::next(const Call& call) {
  if (const CachedPlan* const known = find(call))
    return runs_again(*known) ? Decision{known} : next_of(*known->tuned, known->plan.call);
  TunedCalls* const calls = tuned(call);
  if (!calls || (calls->tuner.decided() && calls->tuner.count_call())) return {&plan(call)};
  return next_of(*calls, call);
}

/// Decides about a call of a kind for which no decision stands, or a measurement round is due.
PlanCache::Decision PlanCache::next_of(TunedCalls& calls, const Call& call) {
  if (calls.tuner.decided()) begin_round(calls, call);
  if (calls.tuner.decided() && calls.tuner.count_call()) return {&plan(call)};  // one candidate
  if (!calls.tuner.all_given() && calls.tuner.meets_first()) {
    calls.tuner.set_met();
    return {nullptr, nullptr, &calls};
  }
  if (!calls.tuner.all_given()) return {&measured_plan(calls, call)};
  if (calls.tuner.is_agreeing()) return {};
  calls.tuner.set_agreeing();
  return {nullptr, &calls};
}

const CachedPlan& PlanCache::plan(const Call& call) {
  if (const CachedPlan* const known = find(call)) return *known;
  if (plans_.size() >= most_plans && !hooks_.plans_in_use()) forget_plans();
  auto made = make(call, choice(call), tuned(call), std::nullopt);
  return *(last_ = plans_.emplace(call, std::move(made)).first->second.get());
}

/// But for the plans that were retired last: the call that asks may lie in one of them.
void PlanCache::forget_plans() {
  plans_.clear(), last_ = nullptr;
  forget_repeated();
}

bool PlanCache::forget_one(const LastUse& last_use) {
  auto oldest = plans_.end();
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (auto plan = plans_.begin(); plan != plans_.end(); ++plan)
    if (const auto used = last_use(*plan->second); used && *used < least)
      least = *used, oldest = plan;
  if (oldest == plans_.end()) return false;
  plans_.erase(oldest), last_ = nullptr;
  forget_repeated();
  return true;
}

void PlanCache::use_rules(AlgorithmRules rules) {
  forget_plans();
  retired_.clear();
  choices_.use_rules(std::move(rules));
}

const CachedPlan& PlanCache::measured_plan(TunedCalls& calls, const Call& call) {
  const std::size_t candidate = calls.tuner.next_candidate();
  auto& plans = calls.measured[call];
  if (plans.size() <= candidate) plans.resize(candidate + 1);
  auto& plan = plans[candidate];
  if (!plan) plan = make(call, calls.tuner.choice_of(candidate), &calls, candidate);
  return *plan;
}

/// `candidate`: of a call that is measured.
std::unique_ptr<CachedPlan> PlanCache::make(const Call& call, const Choice& choice,
                                            TunedCalls* tuned,
                                            std::optional<std::size_t> candidate) const {
  log_choice(call, choice, context_.self, candidate.has_value());
  auto made = std::make_unique<CachedPlan>(HostPlan{proven_plan(call, choice)}, tuned,
                                           candidate.has_value());
  hooks_.plan_made(*made, choice);
  made->candidate = candidate.value_or(0);
  made->extent = call.extent(hosts().ranks());
  set_timed(*made);
  return made;
}

/// Throws AlgorithmRefused.
Plan PlanCache::proven_plan(const Call& call, const Choice& choice) const {
  const PlanLimits limits =
      context_.limits_of ? context_.limits_of(call, choice.protocol) : context_.limits;
  return ProvenPlans::of_process().make(call, choice, hosts(), context_.self, limits,
                                        context_.layout, context_.proofs);
}

std::string PlanCache::refusal(const Call& call, const Choice& choice) const {
  if (!choice.algorithm->source && !context_.proofs.built_in) return "";
  try {
    static_cast<void>(proven_plan(call, choice));
  } catch (const AlgorithmRefused& refused) {
    return refused.what();
  }
  return "";
}

void PlanCache::set_timed(CachedPlan& plan) const {
  plan.timed = plan.measured || (times_calls_ && plan.plan.call.purpose == Purpose::caller);
}

void PlanCache::time_calls(bool all) {
  times_calls_ = all;
  for (auto& [call, plan] : plans_) set_timed(*plan);
  for (auto& plan : retired_) set_timed(*plan);
  for (auto& [kind, calls] : tuned_)
    for (auto& [call, candidates] : calls.measured)
      for (auto& plan : candidates)
        if (plan) set_timed(*plan);
}

/// The tuner's choice, or else the model's.
Choice PlanCache::choice(const Call& call) {
  if (autotunes(call))
    if (const auto found = tuned_.find(typical(call)); found != tuned_.end())
      return found->second.tuner.choice();
  return predicted(call);
}

/// The choice without trials, which does not change. Agreements on times are rare: they make do
/// with a choice that costs next to nothing.
Choice PlanCache::predicted(const Call& call) {
  if (call.purpose == Purpose::decision)
    if (auto first = first_choice(call, hosts(), links())) return std::move(*first);
  return choices_.choice(call);
}

std::vector<MeasuredCell> PlanCache::autotuned() const {
  std::map<std::pair<Collective, Bytes>, MeasuredCell> cells;
  const int ranks = hosts().ranks();
  for (const auto& [kind, calls] : tuned_) {
    auto ways = calls.tuner.measured();
    if (ways.empty() || !is_measured_kind(kind)) continue;
    const Bytes bytes = kind.extent(ranks);
    MeasuredCell& cell = cells[{kind.collective, bytes}];
    if (!cell.ways.empty() && kind.type != DataType::f32) continue;
    cell = {kind.collective,          ranks,          hosts().count(), bytes,
            calls.tuner.confidence(), std::move(ways)};
  }
  const auto all = cells | std::views::values;
  return {all.begin(), all.end()};
}

Choice PlanCache::message_choice(Rank peer, Bytes bytes) const {
  const Hosts pair{std::vector{hosts().host_of(context_.self), hosts().host_of(peer)}};
  const Call call{.collective = Collective::broadcast,
                  .type = DataType::u8,
                  .shape = {.count = Elements{bytes.value()}}};
  return choose(typical(call), pair, {}, SumOrder::any, links());
}

/// All calls of a kind are tuned, or none. What a profile knows needs no measurement.
bool PlanCache::autotunes(const Call& call) const {
  return context_.autotunes && call.purpose == Purpose::caller &&
         may_be_tuned(call, hosts(), links()) && !choices_.is_profiled(typical(call));
}

/// The kind of a call; null where it is not tuned. The same on all ranks.
TunedCalls* PlanCache::tuned(const Call& call) {
  if (!autotunes(call)) return nullptr;
  const Call key = typical(call);
  const auto found = tuned_.find(key);
  if (found != tuned_.end()) return &found->second;
  if (tuned_.size() >= most_tuned) return nullptr;
  const auto first = first_choice(key, hosts(), links());
  TunedCalls calls{first ? Autotuner{*first, key.extent(hosts().ranks())} : tuner_of(key)};
  hooks_.buffers_may_have_changed();  // a program that makes other calls may use other buffers
  return &tuned_.emplace(key, std::move(calls)).first->second;
}

/// Simulates all candidates, which takes much longer than a short call.
Autotuner PlanCache::tuner_of(const Call& key) const {
  return {tuning_candidates(key, hosts(), links(), context_.shorter_blocks_from,
                            choices_.order_of(key)),
          key.collective, key.extent(hosts().ranks()), links().shares_cores};
}

bool PlanCache::is_settled(const Call& call) const {
  if (!autotunes(call)) return true;
  const auto found = tuned_.find(typical(call));
  return found != tuned_.end() ? found->second.tuner.settled() : tuned_.size() >= most_tuned;
}

bool PlanCache::has_lasting_choice(const Call& call) const {
  if (!is_settled(call)) return false;
  const auto found = autotunes(call) ? tuned_.find(typical(call)) : tuned_.end();
  return found == tuned_.end() || !found->second.tuner.is_provisional();
}

/// Plans of these calls are no longer handed out, though some may still have to run. A check runs
/// by the same choice, and leaves them.
void PlanCache::begin_round(TunedCalls& calls, const Call& call) {
  if (calls.tuner.check_is_due()) return calls.tuner.begin_round();
  if (!hooks_.plans_in_use()) retired_.clear();
  retired_.reserve(retired_.size() + plans_.size());
  for (auto plan = plans_.begin(); plan != plans_.end();) {
    const auto next = std::next(plan);
    if (plan->second->tuned == &calls) retired_.push_back(std::move(plans_.extract(plan).mapped()));
    plan = next;
  }
  last_ = nullptr;
  forget_repeated();
  if (calls.tuner.is_for_first_calls()) {
    calls.tuner = tuner_of(typical(call));
    calls.tuner.follow_first_calls();
  } else {
    calls.tuner.begin_round();
  }
  if (calls.tuner.bytes() >= worth_huge_pages) hooks_.buffers_may_have_changed();
}

void PlanCache::decide(TunedCalls& calls, std::span<const double> greatest) {
  const bool checked = calls.tuner.is_checking();
  calls.tuner.decide(greatest);
  if (calls.tuner.decided() && !checked) calls.measured.clear();
}

/// An agreement costs as much as a barrier, so most calls have none.
std::shared_ptr<const Call> PlanCache::visibility_agreement(const Call& call) {
  if (last_without_agreement_ && *last_without_agreement_ == call) return nullptr;
  if (call.purpose != Purpose::caller) return nullptr;
  if (agreements_.size() >= most_plans) agreements_.clear(), last_without_agreement_ = nullptr;
  auto [entry, is_new] = agreements_.try_emplace(call);
  if (is_new && needs_visibility_agreement(call))
    entry->second =
        std::make_shared<const Call>(agreement_on_visibility(std::make_shared<const Call>(call)));
  if (!entry->second) last_without_agreement_ = &entry->first;
  return entry->second;
}

/// Whether mapped buffers would change the choice and save more than the agreement costs.
bool PlanCache::needs_visibility_agreement(const Call& call) {
  if (!context_.maps_buffers) return false;
  const Choice plain = predicted(call);
  const Choice agreement = predicted(agreement_on_visibility(nullptr));
  const auto saves = [&](PeerMappedBuffers peer_mapped) {
    Call mapped = call;
    mapped.peer_mapped = peer_mapped;
    const Choice other = predicted(mapped);
    const bool differs = other.algorithm != plain.algorithm || other.protocol != plain.protocol;
    return differs && plain.nanoseconds - other.nanoseconds > agreement.nanoseconds;
  };
  return saves(PeerMappedBuffers::all) || saves(PeerMappedBuffers::inputs);
}

}  // namespace capstan
