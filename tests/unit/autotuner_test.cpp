// SPDX-License-Identifier: Apache-2.0

// Decisions of the autotuner from times that are made up.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "tests/unit/made_up_times.hpp"

namespace capstan {
namespace {

using namespace made_up;
using ::testing::HasSubstr;

TEST(Autotuner, DecidesForTheFasterCandidate) {
  Autotuner tuner = tuner_of_two(Collective::all_reduce, 400'000);
  EXPECT_EQ(decision(tuner), 0U);
  EXPECT_FALSE(tuner.decided());
  EXPECT_FALSE(tuner.settled());
  EXPECT_FALSE(tuner.count_call());
  EXPECT_GT(measure(tuner, [](std::size_t c, int) { return c == 1 ? 1 * ms : 2 * ms; }), 8);
  decide(tuner);
  EXPECT_TRUE(tuner.decided());
  EXPECT_EQ(decision(tuner), 1U);
  EXPECT_THAT(tuner.choice().reason, HasSubstr("the fastest of 2 that were tried, 1000.00 us"));
}

TEST(Autotuner, ChangesADecisionOnlyBeyondTheHysteresis) {
  const auto changes = [](std::uint64_t bytes, Time second) {
    Autotuner tuner = tuner_of_two(Collective::all_reduce, bytes);
    measure(tuner, [&](std::size_t c, int) { return c == 1 ? second : 1 * ms; });
    decide(tuner);
    return decision(tuner) == 1;
  };
  EXPECT_FALSE(changes(1 << 20, 980 * us));
  EXPECT_TRUE(changes(1 << 20, 920 * us));
  EXPECT_FALSE(changes(64 << 20, 920 * us)) << "long calls need more";
  EXPECT_TRUE(changes(64 << 20, 880 * us));
}

TEST(Autotuner, IgnoresTheFirstCallOfATurnAndTheMinimum) {
  for (const std::uint64_t bytes : {100'000, 2'000'000, 50'000'000}) {
    Autotuner tuner = tuner_of_two(Collective::all_reduce, bytes);
    bool lucky = true;
    const int calls = measure(tuner, [&](std::size_t c, int n) {
      if (c == 0) return n == 0 ? 1000 * ms : 1 * ms;
      if (n == 1 && std::exchange(lucky, false)) return 1 * us;
      return n == 0 ? Time{1} : 2 * ms;
    });
    EXPECT_LT(calls, 40);
    decide(tuner);
    EXPECT_EQ(decision(tuner), 0U) << bytes;
  }
}

/// In a broadcast a turn counts as a whole; a candidate has four turns of four.
TEST(Autotuner, NeverTakesTheMinimumOfFewTurns) {
  Autotuner tuner = tuner_of_two(Collective::broadcast, 400'000);
  constexpr int calls_in_a_turn = 4;
  measure(tuner, [](std::size_t c, int n) {
    if (c == 0) return 1 * ms;
    return n < calls_in_a_turn ? 1 * us : 2 * ms;
  });
  decide(tuner);
  EXPECT_EQ(decision(tuner), 0U);
}

TEST(Autotuner, MeasuresEverMoreRarelyAndAllRoundsCount) {
  Autotuner tuner = tuner_of_two(Collective::all_reduce, 100'000);
  measure(tuner, [](std::size_t c, int) { return c == 1 ? 2 * ms : 1 * ms; });
  decide(tuner);
  EXPECT_EQ(decision(tuner), 0U);

  const std::uint64_t calls = run_as_decided(tuner, 1 * ms);
  EXPECT_FALSE(tuner.decided());
  EXPECT_TRUE(tuner.settled()) << "it has decided before";
  const int measured = measure(tuner, [](std::size_t c, int) { return c == 1 ? 1 * ms : 4 * ms; });
  EXPECT_GE(calls, 14U * static_cast<unsigned>(measured));
  decide(tuner);
  EXPECT_EQ(decision(tuner), 1U) << "1.4 ms on average against 2";
  EXPECT_THAT(tuner.choice().reason, HasSubstr("the fastest of 2 that were tried, the best of "
                                               "them 2 times, 1414.21 us"));

  EXPECT_EQ(run_as_decided(tuner, 1414 * us), 2 * calls);
  measure(tuner, [](std::size_t c, int) { return c == 1 ? 3 * ms : 2900 * us; });
  decide(tuner);
  EXPECT_EQ(decision(tuner), 1U);
}

TEST(Autotuner, LeavesCandidatesFarBehindOutOfLaterRounds) {
  Autotuner tuner{candidates(4), Collective::all_reduce, Bytes{100'000}, false};
  const auto measured_with = [&](const std::vector<Time>& time) {
    std::set<std::size_t> measured;
    measure(tuner, [&](std::size_t candidate, int) {
      measured.insert(candidate);
      return time[candidate];
    });
    decide(tuner);
    if (!tuner.decided()) return measured;
    for (int i = 0; i < 100'000; ++i) {
      if (tuner.count_call()) continue;
      tuner.begin_round();
      if (!tuner.is_checking()) break;
      measure(tuner, [&](std::size_t candidate, int) { return time[candidate]; });
      decide(tuner);
    }
    return measured;
  };
  using Set = std::set<std::size_t>;
  EXPECT_EQ(measured_with({1 * ms, 4100 * us, 1500 * us, 3500 * us}), (Set{0, 1, 2, 3}));
  EXPECT_FALSE(tuner.settled()) << "that was the heat";
  EXPECT_EQ(measured_with({1 * ms, 1 * ms, 1500 * us, 1 * ms}), (Set{0, 2}));
  EXPECT_TRUE(tuner.settled());
  EXPECT_EQ(measured_with({1 * ms, 1 * ms, 9 * ms, 1 * ms}), (Set{0, 2}));
  EXPECT_TRUE(tuner.decided()) << "one candidate is left: it is never measured again";
}

TEST(Autotuner, MeasuredAreTheBestCandidatesWithTheirTimes) {
  Autotuner tuner{candidates(4), Collective::all_reduce, Bytes{100'000}, false};
  EXPECT_TRUE(tuner.measured().empty()) << "nothing is decided";
  run_round(tuner, [](std::size_t c, int) { return static_cast<Time>(4 - c) * ms; });
  const auto measured = tuner.measured();
  ASSERT_FALSE(measured.empty());
  EXPECT_EQ(measured.front().times_shorter, 4U) << "the fastest is the last candidate";
  EXPECT_NEAR(measured.front().nanoseconds, 1e6, 1e3);
  for (const MeasuredWay& way : measured)
    EXPECT_NEAR(way.nanoseconds, 1e6 * static_cast<double>(5 - way.times_shorter), 4e3);
  EXPECT_EQ(tuner.rounds(), 1U);
  const Autotuner alone{candidates(1), Collective::all_reduce, Bytes{8}, false};
  EXPECT_TRUE(alone.measured().empty()) << "nothing had to be measured";
}

/// A busy machine makes one candidate seem the faster one in one turn, and the other in the next.
TEST(Autotuner, IsConfidentWhereTheSameCandidateWinsEveryTurn) {
  for (const bool shares_cores : {false, true})
    for (const Collective collective : {Collective::all_reduce, Collective::broadcast}) {
      const auto confidence = [&](auto time) {
        Autotuner tuner = tuner_of_two(collective, 400'000, shares_cores);
        run_round(tuner, time);
        return tuner.confidence();
      };
      EXPECT_GT(confidence([](std::size_t c, int) { return c == 1 ? 1 * ms : 2 * ms; }), 0.8);
      constexpr int calls_in_a_turn = 4, warm_up = 2;  // by the first candidate
      EXPECT_LE(confidence([](std::size_t c, int n) {
                  const int turn = (c == 0 ? n - warm_up : n) / calls_in_a_turn;
                  return turn % 2 == static_cast<int>(c) ? 9 * ms : 1 * ms;
                }),
                0.5);
    }
}

TEST(Autotuner, MeasuresNothingWhereThereIsOneCandidate) {
  Autotuner tuner{candidates(1), Collective::all_reduce, Bytes{8}, false};
  EXPECT_TRUE(tuner.decided());
  EXPECT_TRUE(tuner.count_call());
}

/// The time that early ranks wait for the last one does not count, nor what lies between calls.
/// Where ranks share cores, the waiting counts.
TEST(Autotuner, WaitingForLateRanksDoesNotCountWhereEachHasACore) {
  for (const auto& [collective, shares_cores, took] :
       {std::tuple{Collective::all_reduce, false, "2000.00"},
        {Collective::broadcast, false, "2000.00"},
        {Collective::all_reduce, true, "5000.00"}}) {
    Autotuner early = tuner_of_two(collective, 400'000, shares_cores),
              late = tuner_of_two(collective, 400'000, shares_cores);
    const auto times_of = [](Autotuner& tuner, Time begin, Time end) {
      for (Time now = 20 * ms; !tuner.all_given(); now += 10 * ms)
        tuner.note(tuner.next_candidate(), now + begin, now + end);
      std::vector<double> times(tuner.time_count());
      tuner.times(times);
      return times;
    };
    const auto a = times_of(early, 0, 5 * ms), b = times_of(late, 3 * ms, 4 * ms);
    std::vector<double> greatest(a.size());
    std::ranges::transform(a, b, greatest.begin(),
                           [](double x, double y) { return std::max(x, y); });
    early.decide(greatest);
    EXPECT_THAT(early.choice().reason, HasSubstr(fmt::format("{} us (pred", took)));
  }
}

/// A decision stands within a hundred calls of a kind, whatever the collective and the size.
TEST(Autotuner, DecidesWithinAHundredCalls) {
  for (const Collective collective : {Collective::all_reduce, Collective::broadcast})
    for (const std::uint64_t bytes : {8U, 1000U, 60'000U, 1U << 20, 64U << 20})
      for (const bool shares_cores : {false, true}) {
        constexpr std::size_t fastest = 4;
        const bool has_first_calls = bytes < 128 << 10;  // and no blocks to be measured shorter
        const std::size_t most_candidates = has_first_calls ? 6 : 7;
        Autotuner tuner{candidates(most_candidates), collective, Bytes{bytes}, shares_cores};
        if (has_first_calls) tuner.follow_first_calls();
        const auto first = has_first_calls ? Autotuner::first_calls : 0;
        const int calls = run_round(
            tuner, [](std::size_t candidate, int) { return (candidate == fastest ? 8 : 10) * us; });
        EXPECT_LE(calls + static_cast<int>(first), 100) << bytes;
        EXPECT_EQ(decision(tuner), fastest) << bytes;
        EXPECT_TRUE(tuner.settled());
      }
}

TEST(Autotuner, RunsTheFirstCallsByWhatIsKnown) {
  Autotuner tuner{candidates(1).front(), Bytes{8}};
  EXPECT_TRUE(tuner.is_for_first_calls());
  EXPECT_TRUE(tuner.decided());
  EXPECT_FALSE(tuner.settled());
  for (std::uint64_t call = 0; call < Autotuner::first_calls; ++call)
    EXPECT_TRUE(tuner.count_call()) << call;
  EXPECT_FALSE(tuner.count_call());
  tuner = tuner_of_two(Collective::broadcast, 8);
  EXPECT_FALSE(tuner.is_for_first_calls());
  EXPECT_FALSE(tuner.decided());
}

/// A candidate whose only turn is its first use of its memory may be the fastest one afterwards.
TEST(Autotuner, TheHeatLeavesWhatWasSlowAtFirst) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce}) {
    Autotuner tuner{candidates(7), collective, Bytes{65'536}, false};
    std::array<int, 8> calls_of{};
    run_round(tuner, [&](std::size_t candidate, int) {
      const int call = calls_of.at(candidate)++;
      if (candidate == 5) return call < 3 ? 40 * us : 4 * us;
      return static_cast<Time>(6 + candidate) * us;
    });
    EXPECT_EQ(decision(tuner), 5U);
  }
}

/// A candidate that lets ranks run ahead is not chosen where that costs the single call as much.
TEST(Autotuner, CallsThatAreAloneCountAsMuchAsThoseInARow) {
  const auto decided = [](Time alone, Time in_a_row) {
    Autotuner tuner = tuner_of_two(Collective::broadcast, 8);
    constexpr int calls_in_a_turn = 4;
    measure(tuner, [&](std::size_t candidate, int n) {
      if (candidate == 0) return 2 * us;
      return n % calls_in_a_turn == 1 ? alone : in_a_row;
    });
    decide(tuner);
    return decision(tuner);
  };
  EXPECT_EQ(decided(4 * us, 1200), 0U) << "less in a row, but more than twice as long alone";
  EXPECT_EQ(decided(3 * us, 1 * us), 1U);
  EXPECT_EQ(decided(1 * us, 2 * us), 1U);
}

/// A program may compute for long between its calls, and not always for as long.
TEST(Autotuner, WhatAProgramDoesBetweenCallsDoesNotCount) {
  for (const Collective collective : {Collective::all_reduce, Collective::broadcast})
    for (const bool shares_cores : {false, true}) {
      Autotuner tuner = tuner_of_two(collective, 400'000, shares_cores);
      Time now = 0;
      while (!tuner.all_given()) {
        const std::size_t candidate = tuner.next_candidate();
        now += candidate == 0 ? 10 * ms : 40 * ms;
        const Time begin = now;
        now += candidate == 0 ? 120 * us : 100 * us;
        tuner.note(candidate, begin, now);
      }
      decide(tuner);
      EXPECT_EQ(decision(tuner), 1U);
      EXPECT_THAT(tuner.choice().reason, HasSubstr("100.00 us (pred"));
    }
}

TEST(Autotuner, RanksMeetBeforeEachTurnWhereTheyMayRunAhead) {
  const auto meetings = [](Collective collective) {
    Autotuner tuner = tuner_of_two(collective, 8);
    int met = 0;
    while (!tuner.all_given()) {
      if (tuner.meets_first()) tuner.set_met(), ++met;
      EXPECT_FALSE(tuner.meets_first()) << "once";
      tuner.note(tuner.next_candidate(), 0, 1);
    }
    return met;
  };
  EXPECT_EQ(meetings(Collective::all_reduce), 0);
  EXPECT_EQ(meetings(Collective::broadcast), 3 * 2) << "three turns of two candidates";
}

/// By then their buffers lie in huge pages.
TEST(Autotuner, LongCallsAreMeasuredAnewInTheSecondRound) {
  Autotuner tuner{candidates(4), Collective::all_reduce, Bytes{1 << 20}, false};
  run_round(tuner, [](std::size_t c, int) { return c == 0 ? 1 * ms : 9 * ms; });
  EXPECT_EQ(decision(tuner), 0U);
  EXPECT_TRUE(tuner.settled());
  EXPECT_TRUE(tuner.is_provisional());
  run_as_decided(tuner, 1 * ms);
  EXPECT_TRUE(tuner.is_provisional()) << "until the second round has ended";
  run_round(tuner, [](std::size_t c, int) { return c == 3 ? 800 * us : 1 * ms; });
  EXPECT_FALSE(tuner.is_provisional());
  EXPECT_EQ(decision(tuner), 3U) << "the times of the first round would outweigh these";
  EXPECT_THAT(tuner.choice().reason, HasSubstr("800.00 us"));
}

/// Two buffers of 16 MiB are 18 pages at most, and a page may take 2 ms, a tenth of the calls'
/// time.
TEST(Autotuner, TheSecondRoundComesWhenBuffersHadTimeToMove) {
  const auto calls_between = [](Bytes bytes, Autotuner::Time call) {
    Autotuner tuner{candidates(2), Collective::all_reduce, bytes, false};
    run_round(tuner, [&](std::size_t, int) { return call; });
    std::uint64_t calls = 0;
    while (tuner.count_call()) ++calls;
    return calls;
  };
  const auto long_ones = calls_between(Bytes{16 << 20}, 1 * ms);
  EXPECT_GE(long_ones, 360U);
  EXPECT_LE(long_ones, 720U);
  EXPECT_GE(calls_between(Bytes{1 << 20}, 20 * us), 2000U) << "short ones move as long";
  EXPECT_LT(calls_between(Bytes{1 << 20}, 10 * ms), 200U);
}

}  // namespace
}  // namespace capstan
