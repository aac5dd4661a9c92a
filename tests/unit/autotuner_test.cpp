// Decisions of the autotuner from times that are made up.

#include "core/selection/autotuner.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

namespace capstan {
namespace {

using ::testing::HasSubstr;

using Time = Autotuner::Time;
constexpr Time us = 1000, ms = 1000 * us;

/// Candidates that differ in the length of their blocks: 1, 2, ...
std::vector<Choice> candidates(std::size_t count) {
  std::vector<Choice> choices(count);
  for (std::size_t i = 0; i < count; ++i) choices[i].times_shorter = i + 1;
  return choices;
}

Autotuner tuner_of_two(Collective collective, std::uint64_t bytes, bool shares_cores = false) {
  return {candidates(2), collective, Bytes{bytes}, shares_cores};
}

/// The candidate that has been decided for.
std::size_t decision(const Autotuner& tuner) {
  return tuner.choice().times_shorter - 1;
}

/// Runs all calls of a round, one after another; `time(candidate, n)` is what the n-th of this
/// candidate takes. Returns how many there were.
template <class TimeOf>
int measure(Autotuner& tuner, TimeOf time) {
  Time now = 0;
  std::array<int, 8> calls_of{};
  int calls = 0;
  for (; !tuner.all_given(); ++calls) {
    const std::size_t candidate = tuner.next_candidate();
    const Time begin = now;
    now += time(candidate, calls_of.at(candidate)++);
    tuner.note(candidate, begin, now);
  }
  return calls;
}

void decide(Autotuner& tuner) {
  std::vector<double> times(tuner.time_count());
  tuner.times(times);
  tuner.decide(times);
}

/// Calls until the next round, which begins.
std::uint64_t run_as_decided(Autotuner& tuner) {
  std::uint64_t calls = 0;
  while (tuner.count_call()) ++calls;
  tuner.begin_round();
  return calls;
}

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

/// In a broadcast the time of a turn is the mean of its calls; a candidate has three turns of nine.
TEST(Autotuner, NeverTakesTheMinimumOfFewTurns) {
  Autotuner tuner = tuner_of_two(Collective::broadcast, 400'000);
  constexpr int calls_in_a_turn = 9;
  measure(tuner, [](std::size_t c, int n) {
    if (c == 0) return 1 * ms;
    return n < calls_in_a_turn ? 1 * us : 2 * ms;
  });
  decide(tuner);
  EXPECT_EQ(decision(tuner), 0U);
}

TEST(Autotuner, MeasuresEverMoreRarelyAndAllRoundsCount) {
  Autotuner tuner = tuner_of_two(Collective::all_reduce, 400'000);
  measure(tuner, [](std::size_t c, int) { return c == 1 ? 2 * ms : 1 * ms; });
  decide(tuner);
  EXPECT_EQ(decision(tuner), 0U);

  const std::uint64_t calls = run_as_decided(tuner);
  EXPECT_FALSE(tuner.decided());
  EXPECT_TRUE(tuner.settled()) << "it has decided before";
  const int measured = measure(tuner, [](std::size_t c, int) { return c == 1 ? 1 * ms : 4 * ms; });
  EXPECT_GE(calls, 14U * static_cast<unsigned>(measured));
  decide(tuner);
  EXPECT_EQ(decision(tuner), 1U) << "1.4 ms on average against 2";
  EXPECT_THAT(tuner.choice().reason, HasSubstr("the fastest of 2 that were tried, the best of "
                                               "them 2 times, 1414.21 us"));

  EXPECT_EQ(run_as_decided(tuner), 2 * calls);
  measure(tuner, [](std::size_t c, int) { return c == 1 ? 3 * ms : 2900 * us; });
  decide(tuner);
  EXPECT_EQ(decision(tuner), 1U);
}

TEST(Autotuner, LeavesCandidatesFarBehindOutOfLaterRounds) {
  Autotuner tuner{candidates(4), Collective::all_reduce, Bytes{400'000}, false};
  const auto measured_with = [&](const std::vector<Time>& time) {
    std::set<std::size_t> measured;
    measure(tuner, [&](std::size_t candidate, int) {
      measured.insert(candidate);
      return time[candidate];
    });
    decide(tuner);
    for (int i = 0; i < 100'000 && tuner.decided(); ++i)
      if (!tuner.count_call()) tuner.begin_round();
    return measured;
  };
  using Set = std::set<std::size_t>;
  EXPECT_EQ(measured_with({1 * ms, 4100 * us, 1500 * us, 3500 * us}), (Set{0, 1, 2, 3}));
  EXPECT_EQ(measured_with({1 * ms, 1 * ms, 1500 * us, 3500 * us}), (Set{0, 2, 3}));
  EXPECT_EQ(measured_with({1 * ms, 1 * ms, 9 * ms, 1 * ms}), (Set{0, 2}));
  EXPECT_TRUE(tuner.decided()) << "one candidate is left: it is never measured again";
}

TEST(Autotuner, MeasuresNothingWhereThereIsOneCandidate) {
  Autotuner tuner{candidates(1), Collective::all_reduce, Bytes{8}, false};
  EXPECT_TRUE(tuner.decided());
  EXPECT_TRUE(tuner.count_call());
}

/// Where no rank can end before all have begun, the time that early ranks wait for the last one
/// does not count. In other collectives, and where ranks share cores, all of the time counts.
TEST(Autotuner, WaitingForLateRanksDoesNotCountWhereAllWait) {
  for (const auto& [collective, shares_cores, took] :
       {std::tuple{Collective::all_reduce, false, "2000.00"},
        {Collective::broadcast, false, "5000.00"},
        {Collective::all_reduce, true, "5000.00"}}) {
    Autotuner early = tuner_of_two(collective, 400'000, shares_cores),
              late = tuner_of_two(collective, 400'000, shares_cores);
    const auto times_of = [](Autotuner& tuner, Time begin, Time end) {
      for (Time now = 0; !tuner.all_given(); now += 10 * ms)
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

}  // namespace
}  // namespace capstan
