// SPDX-License-Identifier: Apache-2.0

// The faults of a plan, and its text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "capstan/error.hpp"
#include "transports/compose/faulty/fault_dice.hpp"

namespace capstan {
namespace {

using faulty::Delivery;
using faulty::FaultDice;
using testing::AllOf;
using testing::HasSubstr;

constexpr Rank here{0}, there{1};

// --- Text ---

TEST(FaultPlan, ReadsEveryFault) {
  const FaultPlan plan = FaultPlan::parse(
      "seed=42,delay=0.1,delay_calls=20,reorder=1,partial=0.25,drop=1e-3,resend_calls=9,"
      "spurious=.5,early=0,stop=1@100:5000,reset=0-2@7,death=3@50,death=4@51");
  EXPECT_EQ(plan, (FaultPlan{.seed = 42,
                             .delay = 0.1,
                             .delay_calls = 20,
                             .reorder = 1,
                             .partial = 0.25,
                             .drop = 0.001,
                             .resend_calls = 9,
                             .spurious = 0.5,
                             .early = 0,
                             .stops = {{Rank{1}, 100, 5000}},
                             .resets = {{Rank{0}, Rank{2}, 7}},
                             .deaths = {{Rank{3}, 50}, {Rank{4}, 51}}}));
}

TEST(FaultPlan, SettingsThatStandTwiceAreRefused) {
  EXPECT_THROW(FaultPlan::parse("seed=1,delay=0.5,seed=2"), InvalidArgument);
  EXPECT_THROW(FaultPlan::parse("delay=0.5,delay=0.5"), InvalidArgument);
  EXPECT_EQ(FaultPlan::parse("stop=1@2:3,stop=1@4:3").stops.size(), 2U);
}

TEST(FaultPlan, OfNothingHasNoFaults) {
  EXPECT_EQ(FaultPlan::parse(""), FaultPlan{});
  EXPECT_EQ(FaultPlan{}.to_string(), "seed=0");
}

TEST(FaultPlan, IsTheSameAfterWritingAndReadingIt) {
  rc::check("parse(to_string(plan)) == plan", [] {
    const auto probability = [] {
      return *rc::gen::map(rc::gen::inRange(0, 1'000'001), [](int n) { return n / 1e6; });
    };
    const auto count = [] { return *rc::gen::arbitrary<std::uint64_t>(); };
    const auto rank = [] { return *rc::gen::inRange(0, 1000); };
    FaultPlan plan{.seed = count(),
                   .delay = probability(),
                   .delay_calls = 1 + count() / 2,
                   .reorder = probability(),
                   .partial = probability(),
                   .drop = probability(),
                   .resend_calls = count(),
                   .spurious = probability(),
                   .early = probability()};
    for (int i = *rc::gen::inRange(0, 3); i > 0; --i) {
      plan.stops.push_back({Rank{rank()}, count(), count()});
      const int one = rank();
      plan.resets.push_back({Rank{one}, Rank{one + 1}, count()});
      plan.deaths.push_back({Rank{rank()}, count()});
    }
    RC_ASSERT(FaultPlan::parse(plan.to_string()) == plan);
  });
}

std::string complaint_about(std::string_view text) {
  try {
    FaultPlan::parse(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing: it was read";
}

TEST(FaultPlan, SaysWhatIsWrongAndWhatCouldBeSaid) {
  EXPECT_THAT(complaint_about("seed=1,dealy=0.1"),
              AllOf(HasSubstr("'dealy=0.1' is not known"), HasSubstr("known are: seed=NUMBER"),
                    HasSubstr("delay,"), HasSubstr("stop=RANK@PUSHES:CALLS")));
  EXPECT_THAT(complaint_about("delay"), HasSubstr("'delay' lacks its value"));
  EXPECT_THAT(complaint_about("seed=1,,drop=1"), HasSubstr("'' lacks its value"));
  for (const auto* text : {"delay=2", "delay=-0.1", "delay=nan", "delay=", "delay=0.1x"})
    EXPECT_THAT(complaint_about(text), HasSubstr("is no probability from 0 to 1")) << text;
  EXPECT_THAT(complaint_about("seed=-1"), HasSubstr("has '-1' where a whole number belongs"));
  EXPECT_THAT(complaint_about("stop=1"), HasSubstr("'stop=1' lacks a '@'"));
  EXPECT_THAT(complaint_about("stop=1@5"), HasSubstr("lacks a ':'"));
  EXPECT_THAT(complaint_about("death=x@5"), HasSubstr("has 'x' where a rank belongs"));
  EXPECT_THAT(complaint_about("death=-1@5"), HasSubstr("has '-1' where a rank belongs"));
  EXPECT_THAT(complaint_about("reset=1@5"), HasSubstr("lacks a '-'"));
  EXPECT_THAT(complaint_about("reset=1-1@5"), HasSubstr("a rank with itself"));
  EXPECT_THAT(complaint_about("delay=1,delay_calls=0"), HasSubstr("delay_calls is 1 at least"));
}

// --- Dice ---

bool same(const Delivery& a, const Delivery& b) {
  return a.hold == b.hold && a.first == b.first && a.pause == b.pause && a.resent == b.resent;
}

TEST(FaultDice, SayTheSameAgainAndSomethingElseForAnotherSeedOrLink) {
  const FaultPlan plan{.seed = 1, .delay = 0.5, .partial = 0.5, .drop = 0.2};
  FaultPlan other = plan;
  other.seed = 2;
  const FaultDice dice(plan, here, there), again(plan, here, there), another(other, here, there),
      back(plan, there, here);
  int other_seed = 0, other_way = 0;
  for (std::uint64_t push = 0; push < 1000; ++push) {
    const Delivery delivery = dice.delivery_of(push, Bytes{8}, Bytes{4096});
    EXPECT_TRUE(same(delivery, again.delivery_of(push, Bytes{8}, Bytes{4096})));
    other_seed += same(delivery, another.delivery_of(push, Bytes{8}, Bytes{4096})) ? 0 : 1;
    other_way += same(delivery, back.delivery_of(push, Bytes{8}, Bytes{4096})) ? 0 : 1;
  }
  EXPECT_GT(other_seed, 500);
  EXPECT_GT(other_way, 500);
}

TEST(FaultDice, HappenAsOftenAsThePlanSays) {
  const FaultPlan plan{.seed = 3, .delay = 0.25, .reorder = 0.125, .spurious = 0.5};
  const FaultDice dice(plan, here, there);
  int delayed = 0, passed_over = 0, spurious = 0;
  constexpr int events = 16'000;  // the spread is about 60
  for (int event = 0; event < events; ++event) {
    const auto number = static_cast<std::uint64_t>(event);
    delayed += dice.delivery_of(number, Bytes{0}, Bytes{8}).hold > 0 ? 1 : 0;
    passed_over += dice.skipped(number) ? 1 : 0;
    spurious += faulty::part_of_sleep(plan, here, number) == 0 ? 1 : 0;
  }
  EXPECT_NEAR(delayed, events / 4, 400);
  EXPECT_NEAR(passed_over, events / 8, 400);
  EXPECT_NEAR(spurious, events / 2, 400);
}

TEST(FaultDice, DelaysAreOfOneCallToAsManyAsAllowed) {
  const FaultDice dice({.seed = 4, .delay = 1, .delay_calls = 5}, here, there);
  std::uint64_t least = 100, most = 0;
  for (std::uint64_t push = 0; push < 500; ++push) {
    const Delivery delivery = dice.delivery_of(push, Bytes{0}, Bytes{800});
    EXPECT_EQ(delivery.first, Bytes{0});
    least = std::min(least, delivery.hold);
    most = std::max(most, delivery.hold);
  }
  EXPECT_EQ(least, 1u);
  EXPECT_EQ(most, 5u);
}

TEST(FaultDice, CutBetweenWordsOfTheSegmentOnly) {
  const FaultDice dice({.seed = 5, .partial = 1}, here, there);
  for (std::uint64_t push = 0; push < 2000; ++push) {
    const Bytes offset{push % 13}, length{1 + push % 101};
    const Delivery delivery = dice.delivery_of(push, offset, length);
    const std::uint64_t last = offset.value() + length.value() - 1;
    if (offset.value() / 8 == last / 8) {
      EXPECT_EQ(delivery.first, Bytes{0}) << "a single word was cut";
    } else {
      EXPECT_GT(delivery.first, Bytes{0});
      EXPECT_LT(delivery.first, length);
      EXPECT_EQ((offset + delivery.first).value() % 8, 0u);
      EXPECT_GT(delivery.pause, 0u);
    }
  }
}

TEST(FaultDice, WhatIsLostComesAgainAsAWhole) {
  const FaultDice dice({.seed = 6, .drop = 1, .resend_calls = 30}, here, there);
  const Delivery of_many_words = dice.delivery_of(0, Bytes{0}, Bytes{80});
  EXPECT_TRUE(of_many_words.resent);
  EXPECT_GT(of_many_words.first, Bytes{0});
  EXPECT_EQ(of_many_words.pause, 30u);
  EXPECT_EQ(dice.delivery_of(0, Bytes{0}, Bytes{8}).hold, 30u);
}

TEST(FaultDice, StopsAndBreaksConcernTheirRanksAlone) {
  const FaultPlan plan = FaultPlan::parse("seed=7,stop=1@10:99,reset=0-1@20,death=3@5");
  const FaultDice dice(plan, here, there), back(plan, there, here), apart(plan, Rank{4}, Rank{2}),
      dead(plan, Rank{4}, Rank{3}), dying(plan, Rank{3}, Rank{4});
  EXPECT_EQ(dice.delivery_of(9, Bytes{0}, Bytes{8}).hold, 0u);
  EXPECT_EQ(dice.delivery_of(10, Bytes{0}, Bytes{8}).hold, 99u);
  EXPECT_EQ(dice.delivery_of(11, Bytes{0}, Bytes{8}).hold, 0u);
  EXPECT_EQ(back.delivery_of(10, Bytes{0}, Bytes{8}).hold, 0u);
  EXPECT_EQ(dice.broken_after(19), std::nullopt);
  EXPECT_THAT(dice.broken_after(20).value(),
              AllOf(HasSubstr("injected fault: the connection was reset after 20 pushes"),
                    HasSubstr("seed=7")));
  EXPECT_TRUE(back.broken_after(20));
  EXPECT_FALSE(apart.broken_after(1000));
  EXPECT_FALSE(dead.broken_after(4));
  EXPECT_THAT(dead.broken_after(5).value(), HasSubstr("injected fault: rank 3 died after 5"));
  EXPECT_TRUE(dying.broken_after(5));
}

TEST(FaultDice, SleepsAreCutShort) {
  const FaultPlan early{.seed = 8, .early = 1};
  for (std::uint64_t sleep = 0; sleep < 100; ++sleep) {
    EXPECT_GE(faulty::part_of_sleep(early, here, sleep), 0);
    EXPECT_LT(faulty::part_of_sleep(early, here, sleep), 1);
    EXPECT_EQ(faulty::part_of_sleep({.seed = 8}, here, sleep), 1);
  }
}

}  // namespace
}  // namespace capstan
