// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "perf/measure/statistics.hpp"

namespace capstan::perf {

/// Calls that all ranks of a machine begin together, each after a time in which nothing is under
/// way: as a program makes them that computes in between. Calls in a row may overlap, so that a
/// rank which only sends seems to be done early. The clock is that of the machine, which all
/// processes share. With a skew the ranks begin at random times within it, which all of them know.
class AloneCalls {
 public:
  using Clock = std::chrono::steady_clock;

  /// The least time in which nothing is under way.
  static constexpr std::chrono::microseconds quiet{20};

  struct Arrival {
    Clock::duration skew{};
    int rank = 0, ranks = 1;
  };

  /// The first call begins at `begin`, the same on all ranks. `seconds` is what a call takes,
  /// about. Calls begin so far from each other that one may take several times as long.
  AloneCalls(Clock::time_point begin, double seconds) : AloneCalls(begin, seconds, {}) {}
  AloneCalls(Clock::time_point begin, double seconds, const Arrival& arrival)
      : begin_(begin), period_(period(seconds) + arrival.skew), arrival_(arrival) {}

  /// Seconds from when the last rank begins a call to its end on this rank, 0 where it has ended
  /// before. The median; with a skew the mean of all but the longest tenth, as calls differ by the
  /// order in which ranks come.
  template <class Call>
  double time(std::uint64_t calls, const Call& call) const {
    std::vector<double> seconds;
    seconds.reserve(calls);
    std::mt19937_64 random{static_cast<std::uint64_t>(begin_.time_since_epoch().count())};
    for (std::uint64_t i = 0; i < calls; ++i) {
      const auto delays = next_delays(random, arrival_);
      const auto common = begin_ + static_cast<std::int64_t>(i) * period_;
      const auto own = delays[static_cast<std::size_t>(arrival_.rank)];
      const auto begin = std::max(wait_until(common + own), common + std::ranges::max(delays));
      call();
      const std::chrono::duration<double> took = Clock::now() - begin;
      seconds.push_back(std::max(took.count(), 0.0));
    }
    return arrival_.skew > Clock::duration{} ? trimmed_mean(std::move(seconds))
                                             : Statistics{std::move(seconds)}.median();
  }

  /// From the begin of a call to that of the next one.
  static Clock::duration period(double seconds) {
    constexpr double times_as_long = 3;
    const std::chrono::duration<double> room{times_as_long * seconds};
    return 2 * quiet + std::chrono::duration_cast<Clock::duration>(room);
  }
  /// The number of calls in so many seconds: one at least.
  static std::uint64_t calls_in(double seconds, double call, Clock::duration skew = {}) {
    const std::chrono::duration<double> each = period(call) + skew;
    return static_cast<std::uint64_t>(std::max(seconds / each.count(), 1.0));
  }

  /// By how much each rank comes later to the next call: the same on all ranks, whose generators
  /// are equal.
  static std::vector<Clock::duration> next_delays(std::mt19937_64& random, const Arrival& arrival) {
    std::uniform_int_distribution<Clock::rep> delay{0, arrival.skew.count()};
    std::vector<Clock::duration> delays(static_cast<std::size_t>(arrival.ranks));
    for (auto& each : delays) each = Clock::duration{delay(random)};
    return delays;
  }

 private:
  /// Now, where the time has passed already.
  static Clock::time_point wait_until(Clock::time_point time) {
    auto now = Clock::now();
    if (now > time) return now;
    while (now < time) now = Clock::now();
    return time;
  }

  static double trimmed_mean(std::vector<double> seconds) {
    std::ranges::sort(seconds);
    seconds.resize(seconds.size() - seconds.size() / 10);
    return std::accumulate(seconds.begin(), seconds.end(), 0.0) /
           static_cast<double>(seconds.size());
  }

  const Clock::time_point begin_;
  const Clock::duration period_;
  const Arrival arrival_;
};

}  // namespace capstan::perf
