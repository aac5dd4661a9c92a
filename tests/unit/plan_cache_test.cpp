// SPDX-License-Identifier: Apache-2.0

// By which plan calls run: what is remembered, measured and forgotten, and when ranks have to
// agree.

#include "core/engine/run/plan_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace capstan {
namespace {

constexpr Bytes block{1 << 20};

Call all_reduce_of(std::uint64_t count) {
  return {.collective = Collective::all_reduce, .shape = {.count = Elements{count}}};
}

struct Context {
  SelectionContext selection{.hosts = 4, .links = {.reads_peers = true}};
  PlanContext plans;
};

/// For rank 0 of four.
Context context_with(bool autotunes = false) {
  return {.plans = {.layout = {4, block * 2},
                    .limits = {.block = block, .cached_buffers = Bytes{8 << 20}},
                    .shorter_blocks_from = block,
                    .autotunes = autotunes,
                    .maps_buffers = true}};
}

/// A cache of rank 0 of four, and what its owner is told.
struct Bench {
  explicit Bench(const Context& context)
      : plans(context.selection, context.plans,
              {.plan_made = [this](const CachedPlan&, const Choice&) { ++made; },
               .buffers_may_have_changed = [this] { ++occasions; },
               .plans_in_use = [this] { return in_use; }}) {}

  void remember(const RepeatedCalls::Entry& entry) {
    plans.remember(entry.request, entry.input, entry.output, entry.plan);
  }

  /// Runs calls until ranks have to agree on times; `time_of(candidate)` is what one takes. Returns
  /// the candidates that were measured.
  template <class TimeOf>
  std::set<std::size_t> measure(const Call& call, TimeOf time_of) {
    std::set<std::size_t> candidates;
    for (int i = 0; i < 100'000; ++i) {
      const auto [plan, undecided, apart] = plans.next(call);
      if (apart) continue;  // ranks meet, then it is asked again
      if (!plan) {
        EXPECT_NE(undecided, nullptr);
        tuned = undecided;
        break;
      }
      ++calls;
      if (!plan->measured && plans.is_settled(call)) break;
      if (!plan->measured) continue;  // one of the first calls
      candidates.insert(plan->candidate);
      PlanCache::note(*plan, now, now + time_of(plan->candidate));
      now += time_of(plan->candidate);
    }
    return candidates;
  }

  void decide() {
    std::vector<double> times(tuned->tuner.time_count());
    tuned->tuner.times(times);
    PlanCache::decide(*tuned, times);
  }

  /// Runs calls until a decision stands.
  template <class TimeOf>
  void settle(const Call& call, TimeOf time_of) {
    for (int part = 0; part < 3 && !plans.is_settled(call); ++part) {
      measure(call, time_of);
      if (!plans.is_settled(call)) decide();
    }
  }

  int made = 0, occasions = 0, calls = 0;
  bool in_use = false;
  Autotuner::Time now = 0;
  TunedCalls* tuned = nullptr;
  PlanCache plans;
};

RepeatedCalls::Entry entry_of(std::uint64_t count, const CachedPlan* plan) {
  Request request;
  request.collective = Collective::all_reduce;
  request.input_count = request.output_count = Elements{count};
  return {.request = request, .input = &request, .output = nullptr, .plan = plan};
}

TEST(PlanCache, WhatAProfileKnowsNeedsNoTrials) {
  MeasuredTimes times{"the profile test"};
  times.add({Collective::all_reduce,
             4,
             1,
             Bytes{4096},
             1,
             {{&algorithm_named(Collective::all_reduce, "flat"), Protocol::staged, 1, 1000, 0}}});
  Context context = context_with(true);
  context.selection.measured = std::make_shared<const MeasuredTimes>(times);
  Bench bench{context};
  EXPECT_TRUE(bench.measure(all_reduce_of(1024), [](std::size_t) { return 1000; }).empty());
  EXPECT_EQ(bench.plans.next(all_reduce_of(1024)).plan->plan.algorithm->name, "flat");
  EXPECT_TRUE(bench.plans.is_settled(all_reduce_of(1024)));
  EXPECT_FALSE(bench.plans.is_settled(all_reduce_of(1 << 20))) << "not in the profile";
}

TEST(PlanCache, OtherRulesDecideFromTheNextCallOn) {
  Bench bench{context_with()};
  const auto name = [&] {
    return bench.plans.next(all_reduce_of(1024)).plan->plan.algorithm->name;
  };
  const auto by_model = name();
  bench.plans.use_rules(AlgorithmRules::parse("all_reduce:ring"));
  EXPECT_EQ(name(), "ring");
  bench.plans.use_rules({});
  EXPECT_EQ(name(), by_model);
}

TEST(PlanCache, MakesThePlanOfACallOnce) {
  Bench bench{context_with()};
  const CachedPlan* const first = bench.plans.next(all_reduce_of(100)).plan;
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->plan.call, all_reduce_of(100));
  EXPECT_NE(bench.plans.next(all_reduce_of(200)).plan, first);
  EXPECT_EQ(bench.plans.next(all_reduce_of(100)).plan, first);
  EXPECT_EQ(bench.made, 2);
  EXPECT_TRUE(PlanCache::runs_again(*first)) << "nothing is measured";
  EXPECT_TRUE(bench.plans.is_settled(all_reduce_of(100)));
}

TEST(PlanCache, ForgetsPlansWhenThereAreTooManyAndNoneIsInUse) {
  Bench bench{context_with()};
  bench.in_use = true;
  const CachedPlan* const first = bench.plans.next(all_reduce_of(1)).plan;
  const auto entry = entry_of(1, first);
  bench.remember(entry);
  for (std::uint64_t count = 2; count <= 1100; ++count) bench.plans.next(all_reduce_of(count));
  EXPECT_EQ(bench.plans.next(all_reduce_of(1)).plan, first) << "it may still have to run";
  EXPECT_NE(bench.plans.lookup(entry.request), nullptr);
  bench.in_use = false;
  bench.plans.next(all_reduce_of(1101));
  EXPECT_EQ(bench.plans.lookup(entry.request), nullptr);
  const int made = bench.made;
  bench.plans.next(all_reduce_of(1));
  EXPECT_EQ(bench.made, made + 1);
}

TEST(PlanCache, ForgetsThePlanThatRanLeastRecentlyOfThoseThatMayGo) {
  Bench bench{context_with()};
  const std::vector<std::uint64_t> last_use{7, 3, 9, 1, 5};  // of the counts from 1 on
  for (std::uint64_t count = 1; count <= 5; ++count) bench.plans.next(all_reduce_of(count));
  std::vector<std::uint64_t> asked;
  const auto use = [&](const CachedPlan& plan) -> std::optional<std::uint64_t> {
    const std::uint64_t count = plan.plan.call.shape.count.value();
    asked.push_back(count);
    if (count == 2) return std::nullopt;
    return last_use[count - 1];
  };
  for (const std::uint64_t gone : {4U, 5U, 1U, 3U}) {
    EXPECT_TRUE(bench.plans.forget_one(use));
    asked.clear();
    bench.plans.forget_one([&](const CachedPlan& plan) { return use(plan), std::nullopt; });
    EXPECT_THAT(asked, ::testing::Not(::testing::Contains(gone)));
  }
  EXPECT_FALSE(bench.plans.forget_one(use));
  const int made = bench.made;
  for (std::uint64_t count = 1; count <= 5; ++count) bench.plans.next(all_reduce_of(count));
  EXPECT_EQ(bench.made, made + 4) << "that of count 2 has stayed";
}

TEST(PlanCache, KnowsRepeatedRequestsUntilTheirPlansAreForgotten) {
  Bench bench{context_with()};
  const CachedPlan* const plan = bench.plans.next(all_reduce_of(5)).plan;
  const auto five = entry_of(5, plan), six = entry_of(6, plan);
  EXPECT_EQ(bench.plans.lookup(five.request), nullptr);
  bench.remember(five);
  bench.remember(six);
  for (const auto* entry : {&five, &six, &five}) {
    const auto* const known = bench.plans.lookup(entry->request);
    ASSERT_NE(known, nullptr);
    EXPECT_EQ(known->plan, plan);
  }
  bench.plans.forget_repeated();
  EXPECT_EQ(bench.plans.lookup(five.request), nullptr);
  EXPECT_EQ(bench.plans.lookup(six.request), nullptr);
}

TEST(PlanCache, MeasuresAgreesAndDecides) {
  Bench bench{context_with(true)};
  const Call call = all_reduce_of(5000);
  EXPECT_FALSE(bench.plans.is_settled(call));
  const auto time_of = [](std::size_t candidate) { return candidate == 1 ? 1000 : 3000; };
  const auto candidates = bench.measure(call, time_of);
  EXPECT_GT(candidates.size(), 1U);
  EXPECT_EQ(bench.occasions, 1);
  EXPECT_EQ(bench.plans.next(call).plan, nullptr) << "it waits for the agreement";
  EXPECT_EQ(bench.plans.next(call).undecided, nullptr) << "which is under way";
  EXPECT_FALSE(bench.plans.is_settled(call));

  bench.decide();
  bench.settle(call, time_of);
  const CachedPlan* const decided = bench.plans.next(call).plan;
  ASSERT_NE(decided, nullptr);
  EXPECT_FALSE(decided->measured);
  const Choice& choice = bench.tuned->tuner.choice_of(1);
  EXPECT_EQ(decided->plan.algorithm, choice.algorithm);
  EXPECT_EQ(decided->plan.protocol, choice.protocol);
  EXPECT_EQ(bench.plans.choice(call).protocol, choice.protocol);
  EXPECT_TRUE(bench.plans.is_settled(call));
  EXPECT_EQ(bench.plans.next(call).plan, decided);
}

/// Nothing is simulated before the first calls, and one plan does for all of them.
TEST(PlanCache, TheFirstCallsRunByOnePlan) {
  Bench bench{context_with(true)};
  const Call call = all_reduce_of(2);
  const CachedPlan* const first = bench.plans.next(call).plan;
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(bench.plans.choice(call).reason, ::testing::HasSubstr("first calls"));
  for (std::uint64_t i = 1; i < Autotuner::first_calls; ++i)
    EXPECT_EQ(bench.plans.next(call).plan, first) << i;
  EXPECT_EQ(bench.made, 1);
  EXPECT_FALSE(bench.plans.is_settled(call));
  EXPECT_TRUE(bench.plans.next(call).plan->measured);
}

/// Plans are forgotten in the call that ends the first ones of a kind: its plan is one of them.
TEST(PlanCache, OneCandidateIsNotTriedThoughThereAreManyPlans) {
  Context context = context_with(true);
  context.selection.hosts = Hosts{std::vector<int>{0, 1}};
  Bench bench{context};
  const Call call{.collective = Collective::scatter, .shape = {.count = Elements{8000}}};
  const CachedPlan* const first = bench.plans.next(call).plan;
  ASSERT_NE(first, nullptr);
  bench.remember(entry_of(8000, first));
  for (std::uint64_t i = 1; i < Autotuner::first_calls; ++i) bench.plans.next(call);
  bench.in_use = true;
  for (int i = 0; i < 1100; ++i) {
    Call other = call;
    other.shape.count = Elements{10'000'000 + static_cast<std::uint64_t>(i)};
    bench.plans.plan(other);
  }
  bench.in_use = false;
  const CachedPlan* const later = bench.plans.next(first->plan.call).plan;
  ASSERT_NE(later, nullptr);
  EXPECT_FALSE(later->measured);
  EXPECT_EQ(later->plan.call, call);
  EXPECT_EQ(first->plan.call, call) << "the caller of next() may still read it";
  EXPECT_TRUE(bench.plans.is_settled(call));
}

TEST(PlanCache, DecidesWithinAHundredCallsOfAKind) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::broadcast, Collective::reduce, Collective::all_gather,
        Collective::reduce_scatter, Collective::all_to_all, Collective::barrier})
    for (const std::uint64_t count : {2U, 256U, 16'384U, 1U << 18, 1U << 24}) {
      const Call call{.collective = collective,
                      .shape = {.count = Elements{collective == Collective::barrier ? 0 : count}}};
      Bench bench{context_with(true)};
      bench.settle(call, [](std::size_t candidate) { return candidate == 0 ? 1000 : 1010; });
      EXPECT_TRUE(bench.plans.is_settled(call)) << name_of(collective) << " of " << count;
      EXPECT_LE(bench.calls, 100) << name_of(collective) << " of " << count;
    }
}

TEST(PlanCache, MeasuresAgainAndForgetsThePlansOfBefore) {
  Bench bench{context_with(true)};
  const Call call = all_reduce_of(5000), other = all_reduce_of(5100);  // of one kind
  const auto time_of = [](std::size_t) { return 1000; };
  bench.settle(call, time_of);
  const CachedPlan* const decided = bench.plans.next(call).plan;
  ASSERT_NE(decided, nullptr);
  EXPECT_EQ(bench.plans.next(other).plan->tuned, decided->tuned);
  bench.remember(entry_of(5, decided));

  bench.in_use = true;  // the plan of before still has to run
  int calls = 0;
  while (PlanCache::runs_again(*decided) && calls < 1'000'000) ++calls;
  EXPECT_TRUE(bench.plans.next(call).plan->measured);
  EXPECT_EQ(decided->plan.call, call);
  EXPECT_EQ(bench.plans.lookup(entry_of(5, nullptr).request), nullptr);
  EXPECT_TRUE(bench.plans.is_settled(call)) << "its decision stands meanwhile";
  EXPECT_TRUE(bench.plans.next(other).plan->measured);
}

TEST(PlanCache, AgreesOnBuffersOnlyBeforeCallsThatThisWouldChange) {
  Bench bench{context_with()};
  EXPECT_EQ(bench.plans.visibility_agreement(all_reduce_of(1)), nullptr);
  EXPECT_EQ(bench.plans.visibility_agreement(all_reduce_of(1)), nullptr);
  const Call large = all_reduce_of(1 << 20);
  const auto agreement = bench.plans.visibility_agreement(large);
  ASSERT_NE(agreement, nullptr);
  EXPECT_EQ(agreement->purpose, Purpose::visibility);
  EXPECT_EQ(*agreement->about, large);
  EXPECT_EQ(bench.plans.visibility_agreement(large), agreement) << "plans compare it by address";
  EXPECT_EQ(bench.plans.visibility_agreement(*agreement), nullptr);

  Context unmapped = context_with();
  unmapped.plans.maps_buffers = false;
  EXPECT_EQ(Bench{unmapped}.plans.visibility_agreement(large), nullptr);
}

}  // namespace
}  // namespace capstan
