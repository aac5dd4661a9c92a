#pragma once

#include <algorithm>
#include <chrono>

namespace capstan {

/// A point in time up to which something may take, on the steady clock.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(Clock::duration duration) {
    const auto now = Clock::now();
    return Deadline{duration > Clock::time_point::max() - now ? Clock::time_point::max()
                                                              : now + duration};
  }
  static Deadline never() { return Deadline{Clock::time_point::max()}; }

  bool expired() const { return Clock::now() >= when_; }
  /// Never negative.
  Clock::duration remaining() const {
    return std::max(when_ - Clock::now(), Clock::duration::zero());
  }
  Clock::time_point when() const { return when_; }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace capstan
