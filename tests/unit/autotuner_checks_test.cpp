// SPDX-License-Identifier: Apache-2.0

// Checks of the autotuner's decisions, whose times change for good or for a moment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/made_up_times.hpp"

namespace capstan {
namespace {

using namespace made_up;
using ::testing::HasSubstr;

/// The cores come to lie far from each other, where the other candidate is the fastest. Both are
/// measured anew, although the next round would be long after that.
TEST(Autotuner, BeginsAnewWhenItsDecisionTakesAnotherTimeForGood) {
  for (const Collective collective : {Collective::all_reduce, Collective::broadcast})
    for (const bool shares_cores : {false, true}) {
      Autotuner tuner = tuner_of_two(collective, 1000, shares_cores);
      const auto near = [](std::size_t c, int) { return c == 0 ? 2 * us : 3 * us; };
      const auto far = [](std::size_t c, int) { return c == 0 ? 9 * us : 5 * us; };
      run_round(tuner, near);
      EXPECT_EQ(decision(tuner), 0U);
      for (int round = 0; round < 9; ++round) {
        run_as_decided(tuner, 2 * us);
        run_round(tuner, near);
      }
      std::uint64_t calls = 0;
      for (int check = 0; check < 2; ++check) {
        calls += run_stretch(tuner);
        ASSERT_TRUE(tuner.is_checking());
        measure(tuner, far);
        decide(tuner);
        EXPECT_EQ(decision(tuner), 0U);
      }
      EXPECT_LE(calls, 200'000U) << "a fifth of a second of calls";
      EXPECT_EQ(run_stretch(tuner), 0U) << "the round is due at once";
      EXPECT_FALSE(tuner.is_checking());
      run_round(tuner, far);
      EXPECT_EQ(decision(tuner), 1U);
      EXPECT_THAT(tuner.choice().reason, HasSubstr("5.00 us")) << "what was before is forgotten";
    }
}

TEST(Autotuner, OneCheckThatIsDisturbedChangesNothing) {
  Autotuner tuner = tuner_of_two(Collective::all_reduce, 1000);
  run_round(tuner, [](std::size_t c, int) { return c == 0 ? 2 * us : 3 * us; });
  for (int check = 0; check < 20; ++check) {
    run_stretch(tuner);
    if (!tuner.is_checking()) break;
    measure(tuner, [&](std::size_t, int) { return check % 2 == 0 ? 20 * us : 2 * us; });
    decide(tuner);
    EXPECT_GT(tuner.rounds(), 0U);
  }
}

/// The calls of a program whose times are never the same must not be measured all the time.
TEST(Autotuner, ChecksBecomeRarerWhereTheyChangeNothing) {
  Autotuner tuner = tuner_of_two(Collective::all_reduce, 1000);
  const auto busy = [](Time factor) {
    return [=](std::size_t c, int) { return factor * (c == 0 ? 2 * us : 3 * us); };
  };
  run_round(tuner, busy(1));
  std::vector<std::uint64_t> stretches;
  for (int times = 0; times < 10; ++times) {
    const Time factor = times % 2 == 0 ? 4 : 1;
    std::uint64_t calls = 0;
    for (run_stretch(tuner); tuner.is_checking(); calls += run_stretch(tuner)) {
      measure(tuner, busy(factor));
      decide(tuner);
    }
    run_round(tuner, busy(factor));
    EXPECT_EQ(decision(tuner), 0U);
    stretches.push_back(calls);
  }
  EXPECT_GE(stretches.back(), 4 * stretches.front());
}

}  // namespace
}  // namespace capstan
