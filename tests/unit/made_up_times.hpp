// SPDX-License-Identifier: Apache-2.0
#pragma once

// An autotuner, and calls whose times a test makes up.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "core/schedule/selection/autotuner.hpp"

namespace capstan::made_up {

using Time = Autotuner::Time;
inline constexpr Time us = 1000, ms = 1000 * us;

/// Candidates that differ in the length of their blocks: 1, 2, ...
inline std::vector<Choice> candidates(std::size_t count) {
  std::vector<Choice> choices(count);
  for (std::size_t i = 0; i < count; ++i) choices[i].times_shorter = i + 1;
  return choices;
}

inline Autotuner tuner_of_two(Collective collective, std::uint64_t bytes,
                              bool shares_cores = false) {
  return {candidates(2), collective, Bytes{bytes}, shares_cores};
}

/// The candidate that has been decided for.
inline std::size_t decision(const Autotuner& tuner) {
  return tuner.choice().times_shorter - 1;
}

inline void decide(Autotuner& tuner) {
  std::vector<double> times(tuner.time_count());
  tuner.times(times);
  tuner.decide(times);
}

/// Runs all calls of a round, or of its heat, one after another; `time(candidate, n)` is what the
/// n-th of this candidate takes. Returns how many there were.
template <class TimeOf>
int measure(Autotuner& tuner, TimeOf time) {
  Time now = 0;
  std::array<int, 8> calls_of{};
  int calls = 0;
  for (; !tuner.all_given(); ++calls) {
    if (tuner.meets_first()) tuner.set_met();
    const std::size_t candidate = tuner.next_candidate();
    const Time begin = now;
    now += time(candidate, calls_of.at(candidate)++);
    tuner.note(candidate, begin, now);
  }
  return calls;
}

/// The same for a whole round, with its decision.
template <class TimeOf>
int run_round(Autotuner& tuner, TimeOf time) {
  int calls = 0;
  do {
    calls += measure(tuner, time);
    decide(tuner);
  } while (!tuner.decided());
  return calls;
}

/// Calls until a round or a check is due, which begins.
inline std::uint64_t run_stretch(Autotuner& tuner) {
  std::uint64_t calls = 0;
  while (calls < 10'000'000 && tuner.count_call()) ++calls;
  tuner.begin_round();
  return calls;
}

/// Calls until the next round, which begins. Checks find that calls take `time`.
inline std::uint64_t run_as_decided(Autotuner& tuner, Time time) {
  std::uint64_t calls = run_stretch(tuner);
  while (tuner.is_checking()) {
    measure(tuner, [&](std::size_t, int) { return time; });
    decide(tuner);
    EXPECT_TRUE(tuner.decided());
    calls += run_stretch(tuner);
  }
  return calls;
}

}  // namespace capstan::made_up
