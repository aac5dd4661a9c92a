#pragma once

#include <chrono>

#include "core/net/poller.hpp"

namespace capstan::ofi {

/// A descriptor to sleep on: readable when `watched` is, or when a time has passed.
class Sleeper {
 public:
  /// `watched` may be -1: then there is the time alone. Throws SystemError.
  explicit Sleeper(int watched);

  int descriptor() const { return events_.descriptor(); }
  /// Zero: at once. From then on it stays readable until the next set_alarm() or clear_alarm().
  void set_alarm(std::chrono::nanoseconds in) { events_.alarm(Deadline::in(in)); }
  void clear_alarm() { events_.alarm(Deadline::never()); }
  /// Until it is readable, or `at_most`.
  void sleep(std::chrono::nanoseconds at_most);

 private:
  Poller events_ = Poller::with_alarm();
};

}  // namespace capstan::ofi
