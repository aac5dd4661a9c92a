#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "perf/measure/statistics.hpp"

namespace capstan::perf {

/// Calls that all ranks of a machine begin together, each after a time in which nothing is under
/// way: as a program makes them that computes in between. Calls in a row may overlap, so that a
/// rank which only sends seems to be done early. The clock is that of the machine, which all
/// processes share.
class AloneCalls {
 public:
  using Clock = std::chrono::steady_clock;

  /// The least time in which nothing is under way.
  static constexpr std::chrono::microseconds quiet{20};

  /// The first call begins at `begin`, the same on all ranks. `seconds` is what a call takes,
  /// about. Calls begin so far from each other that one may take several times as long.
  AloneCalls(Clock::time_point begin, double seconds) : begin_(begin), period_(period(seconds)) {}

  /// Seconds from the common begin of a call to its end on this rank, the median.
  template <class Call>
  double time(std::uint64_t calls, const Call& call) const {
    std::vector<double> seconds;
    seconds.reserve(calls);
    for (std::uint64_t i = 0; i < calls; ++i) {
      const auto begin = wait_until(begin_ + static_cast<std::int64_t>(i) * period_);
      call();
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return Statistics{std::move(seconds)}.median();
  }

  /// From the begin of a call to that of the next one.
  static Clock::duration period(double seconds) {
    constexpr double times_as_long = 3;
    const std::chrono::duration<double> room{times_as_long * seconds};
    return 2 * quiet + std::chrono::duration_cast<Clock::duration>(room);
  }
  /// How many calls there are in so many seconds: one at least.
  static std::uint64_t calls_in(double seconds, double call) {
    const std::chrono::duration<double> each = period(call);
    return static_cast<std::uint64_t>(std::max(seconds / each.count(), 1.0));
  }

 private:
  /// Now, where the time has passed already.
  static Clock::time_point wait_until(Clock::time_point time) {
    auto now = Clock::now();
    if (now > time) return now;
    while (now < time) now = Clock::now();
    return time;
  }

  const Clock::time_point begin_;
  const Clock::duration period_;
};

}  // namespace capstan::perf
