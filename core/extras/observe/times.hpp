// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace capstan {

/// Since the epoch of the clock.
template <class Clock, class Duration>
std::int64_t nanoseconds(std::chrono::time_point<Clock, Duration> time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

inline double microseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace capstan
