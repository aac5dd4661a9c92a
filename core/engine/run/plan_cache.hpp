// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/engine/executor/host_plan.hpp"
#include "core/engine/run/repeated_calls.hpp"
#include "core/schedule/custom/proven_plans.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/autotuner.hpp"
#include "core/schedule/selection/kept_choices.hpp"
#include "core/schedule/selection/selector.hpp"

namespace capstan {

struct DevicePlan;
struct TunedCalls;

/// A plan and the tuner of its kind of calls. The plan does not change; the tuner does, and whether
/// calls are timed.
struct CachedPlan {
  HostPlan plan;  ///< of calls on devices without the part of the processor
  TunedCalls* tuned = nullptr;  ///< counts or times its calls; null: nothing does
  bool measured = false;        ///< its calls are timed, for this candidate
  bool timed = false;           ///< its calls are timed: for a candidate, or for an observer
  std::size_t candidate = 0;
  Bytes extent{};  ///< the length of the call's largest buffer, for observers
  std::shared_ptr<DevicePlan> on_device{};  ///< null: the processor runs its calls
};

/// Calls of about the same size, which are tuned together.
struct TunedCalls {
  Autotuner tuner;
  /// Plans of this measurement round: of a call, by candidate.
  std::unordered_map<Call, std::vector<std::unique_ptr<CachedPlan>>, CallHash> measured{};
  /// The agreement by which ranks meet before such a call; null: not needed yet. It is kept, so
  /// that it has one plan.
  std::shared_ptr<const Call> meeting{};
};

/// The facts besides the call and its choice that plans depend on: the same on all ranks but for
/// `self`.
struct PlanContext {
  Rank self{};
  SlotLayout layout;
  PlanLimits limits{};
  /// Instead of `limits`, where they depend on the call.
  std::function<PlanLimits(const Call&, Protocol)> limits_of{};
  ProofPolicy proofs{};
  Bytes shorter_blocks_from{};  ///< calls this long are measured in shorter blocks, too
  bool autotunes = false;       ///< calls may be measured
  bool maps_buffers = false;    ///< buffers of calls may be mapped by all peers
};

/// Finds the plan by which a call runs: remembers plans, chooses algorithms, measures candidates,
/// and says when ranks have to agree on something first.
///
/// All ranks of a communicator ask in the same order and get the same answers. Used under the lock
/// of Progress.
class PlanCache {
 public:
  /// Functions of the owner.
  struct Hooks {
    std::function<void(CachedPlan&, const Choice&)> plan_made;  ///< before it first runs
    std::function<void()> buffers_may_have_changed;             ///< a measurement round begins
    std::function<bool()> plans_in_use;                         ///< some may still have to run
  };
  PlanCache(SelectionContext selection, PlanContext context, Hooks hooks);

  /// The plan of a request that has run before; null: not known, or no longer.
  const RepeatedCalls::Entry* lookup(const Request& request) {
    const RepeatedCalls::Entry* const known = repeated_.find(request);
    return known && known->plan ? known : nullptr;
  }
  /// Stores a plan that next() has just handed out, for lookup().
  void remember(const Request& request, const void* input, void* output, const CachedPlan* plan) {
    repeated_.remember(request, input, output, plan);
  }
  void forget_repeated() { repeated_.forget_plans(); }

  /// How the next call of the program runs.
  struct Decision {
    const CachedPlan* plan = nullptr;  ///< null: to be asked again when the call's turn comes
    TunedCalls* undecided = nullptr;   ///< ranks have to agree on its times before the call
    TunedCalls* apart = nullptr;       ///< ranks have to meet before the call, which is timed
  };
  Decision next(const Call& call);
  /// Counts the next call, and says whether it runs by this plan again. If not, see next().
  static bool runs_again(const CachedPlan& plan) {
    return !plan.tuned || plan.tuned->tuner.count_call();
  }

  /// A measured call has ended.
  static void note(const CachedPlan& plan, Autotuner::Time begin, Autotuner::Time end) {
    plan.tuned->tuner.note(plan.candidate, begin, end);
  }
  /// Ranks have agreed on the times of a measurement round.
  static void decide(TunedCalls& calls, std::span<const double> greatest);

  /// The plan of a call that ranks make among themselves, or whose choice stands.
  const CachedPlan& plan(const Call& call);

  /// The call by which ranks agree on PeerMappedBuffers before this one; null: none is needed.
  std::shared_ptr<const Call> visibility_agreement(const Call& call);

  /// When calls of a plan ran last, as a number; none: it has to stay.
  using LastUse = std::function<std::optional<std::uint64_t>(const CachedPlan&)>;
  /// Forgets the plan whose calls ran least recently. False: there is none to forget.
  bool forget_one(const LastUse& last_use);

  /// Decides by other rules from the next call on. All ranks call it between the same two calls,
  /// while no plan is in use. For sweeps.
  void use_rules(AlgorithmRules rules);

  /// Whether all calls of programs are timed, besides those that are measured.
  void time_calls(bool all);

  /// The choice by which a call runs or, while its candidates are measured, is expected to run.
  Choice choice(const Call& call);
  /// The refusal of the proof that such a plan has to pass before it runs; empty where it runs.
  std::string refusal(const Call& call, const Choice& choice) const;
  /// The findings of the autotuner for each collective and size: times of f32, if these were
  /// measured.
  std::vector<MeasuredCell> autotuned() const;
  /// How a message to or from `peer` is expected to travel: as a broadcast between the two ranks.
  Choice message_choice(Rank peer, Bytes bytes) const;
  /// Whether a first decision about calls like this one has been made, or needs no measurement.
  bool is_settled(const Call& call) const;
  /// Whether is_settled() holds, and later rounds are not expected to change the decision: see
  /// Autotuner::is_provisional().
  bool has_lasting_choice(const Call& call) const;

 private:
  const Hosts& hosts() const { return choices_.context().hosts; }
  const LinkModel& links() const { return choices_.context().links; }
  const CachedPlan* find(const Call& call);
  void forget_plans();
  Plan proven_plan(const Call& call, const Choice& choice) const;
  Decision next_of(TunedCalls& calls, const Call& call);
  const CachedPlan& measured_plan(TunedCalls& calls, const Call& call);
  std::unique_ptr<CachedPlan> make(const Call& call, const Choice& choice, TunedCalls* tuned,
                                   std::optional<std::size_t> candidate) const;
  void set_timed(CachedPlan& plan) const;
  Choice predicted(const Call& call);
  bool autotunes(const Call& call) const;
  TunedCalls* tuned(const Call& call);
  Autotuner tuner_of(const Call& key) const;
  void begin_round(TunedCalls& calls, const Call& call);
  bool needs_visibility_agreement(const Call& call);

  RepeatedCalls repeated_;
  KeptChoices choices_;
  const PlanContext context_;
  const Hooks hooks_;
  bool times_calls_ = false;

  const CachedPlan* last_ = nullptr;  // of plans_: often the next one
  std::unordered_map<Call, std::unique_ptr<CachedPlan>, CallHash> plans_;
  std::vector<std::unique_ptr<CachedPlan>> retired_;      // from plans_, maybe in use
  std::unordered_map<Call, TunedCalls, CallHash> tuned_;  // by typical call
  // By call. Each agreement is kept: two agreements are equal only if `about` is the same object.
  std::unordered_map<Call, std::shared_ptr<const Call>, CallHash> agreements_;
  const Call* last_without_agreement_ = nullptr;  // of agreements_: often the next call
};

}  // namespace capstan
