// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Longer limits count as this one, about 31 years, with which the library can calculate.
inline constexpr std::chrono::milliseconds longest_time_limit = std::chrono::seconds{1'000'000'000};

/// A time limit in seconds as programs, variables and options give it, rounded up. Whatever lies
/// above the longest limit, infinity too, is that one. Nothing for what is no time: NaN and
/// negative numbers.
inline std::optional<std::chrono::milliseconds> time_limit_of(double seconds) {
  if (!(seconds >= 0)) return std::nullopt;
  const std::chrono::duration<double, std::milli> exact = std::chrono::duration<double>(seconds);
  if (exact >= longest_time_limit) return longest_time_limit;
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(exact.count()))};
}

/// A point in time on the steady clock by which an action has to be done. Keeps the time limit that
/// it was made from, so that an error can say "within 30 s".
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// In any unit: what is longer than the clock can count never comes.
  template <class Count, class Period>
  static Deadline in(std::chrono::duration<Count, Period> limit) {
    using Limit = std::chrono::duration<Count, Period>;
    constexpr auto most = std::chrono::duration_cast<Limit>(Clock::duration::max());
    if (!(limit < most)) return never();
    if (limit <= Limit::zero()) return Deadline{Clock::now(), Clock::duration::zero()};
    const auto now = Clock::now();
    const auto duration = std::chrono::duration_cast<Clock::duration>(limit);
    if (duration > Clock::time_point::max() - now) return never();
    return Deadline{now + duration, duration};
  }
  static Deadline never() { return Deadline{Clock::time_point::max(), Clock::duration::max()}; }

  bool is_never() const { return when_ == Clock::time_point::max(); }
  bool expired() const { return Clock::now() >= when_; }
  /// Never negative.
  Clock::duration remaining() const {
    return std::max(when_ - Clock::now(), Clock::duration::zero());
  }
  Clock::time_point when() const { return when_; }
  /// The earlier of the two.
  Deadline clamp(Deadline other) const { return other.when_ < when_ ? other : *this; }

  /// Milliseconds for poll(2) and epoll_wait(2), rounded up so that a wait never ends early; -1
  /// (for ever) if this deadline never passes.
  int poll_timeout() const {
    if (is_never()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(remaining());
    return static_cast<int>(std::min<std::chrono::milliseconds::rep>(left.count(), INT_MAX));
  }
  /// The time limit that it was made from.
  Clock::duration limit() const { return budget_; }
  /// The time limit, for messages: "30 s", "0.25 s".
  std::string budget() const {
    if (is_never()) return "unlimited time";
    char text[32];
    const double seconds = std::chrono::duration<double>(budget_).count();
    constexpr auto format = std::chars_format::general;
    const auto end = std::to_chars(text, text + sizeof text, seconds, format, 3).ptr;
    return std::string(text, end) + " s";
  }

 private:
  Deadline(Clock::time_point when, Clock::duration budget) : when_(when), budget_(budget) {}
  Clock::time_point when_;
  Clock::duration budget_;
};

/// How long a wait may take, in any unit; std::nullopt, or more than the clock can count: for ever.
class TimeLimit {
 public:
  TimeLimit(std::nullopt_t = std::nullopt) {}
  template <class Count, class Period>
  TimeLimit(std::chrono::duration<Count, Period> limit) {
    const Deadline deadline = Deadline::in(limit);
    if (!deadline.is_never()) limit_ = deadline.limit();
  }
  template <class Count, class Period>
  TimeLimit(std::optional<std::chrono::duration<Count, Period>> limit) {
    if (limit) *this = *limit;
  }

  /// The limit counts from now on.
  Deadline deadline() const { return limit_ ? Deadline::in(*limit_) : Deadline::never(); }

 private:
  std::optional<Deadline::Clock::duration> limit_;
};

}  // namespace CAPSTAN_EXPORT capstan
