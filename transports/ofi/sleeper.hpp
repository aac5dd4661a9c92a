// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "core/platform/net/poller.hpp"

namespace capstan::ofi {

/// A descriptor to sleep on: readable when `watched` is, or when the alarm is due.
class Sleeper {
 public:
  /// `watched` may be -1: then there is the alarm alone. Throws SystemError.
  explicit Sleeper(int watched);

  int descriptor() const { return events_.descriptor(); }
  /// Makes the descriptor readable after `in`, until the next set_alarm() or clear_alarm().
  void set_alarm(std::chrono::nanoseconds in) { events_.alarm(Deadline::in(in)); }
  void clear_alarm() { events_.alarm(Deadline::never()); }
  /// Returns when it is readable, or after `at_most`.
  void sleep(std::chrono::nanoseconds at_most);

 private:
  Poller events_ = Poller::with_alarm();
};

}  // namespace capstan::ofi
