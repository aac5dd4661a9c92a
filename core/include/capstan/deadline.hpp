#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <string>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A point in time on the steady clock by which an action has to be done. Keeps the time limit that
/// it was made from, so that an error can say "within 30 s".
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(Clock::duration duration) {
    const auto now = Clock::now();
    if (duration > Clock::time_point::max() - now) return never();
    return Deadline{now + duration, std::max(duration, Clock::duration::zero())};
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
    std::snprintf(text, sizeof text, "%.3g s", std::chrono::duration<double>(budget_).count());
    return text;
  }

 private:
  Deadline(Clock::time_point when, Clock::duration budget) : when_(when), budget_(budget) {}
  Clock::time_point when_;
  Clock::duration budget_;
};

}  // namespace CAPSTAN_EXPORT capstan
