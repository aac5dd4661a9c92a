// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>

namespace capstan {

/// The duration, or zero if it is negative.
inline timespec to_timespec(std::chrono::nanoseconds duration) {
  const auto positive = std::max(duration, std::chrono::nanoseconds::zero());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(positive);
  return {.tv_sec = seconds.count(), .tv_nsec = (positive - seconds).count()};
}

/// Returns when one of the descriptors is readable, after `at_most`, or on a signal. A descriptor
/// of -1 is none.
template <std::size_t count>
void wait_readable(const int (&descriptors)[count], std::chrono::nanoseconds at_most) {
  pollfd watched[count];
  for (std::size_t i = 0; i < count; ++i)
    watched[i] = {.fd = descriptors[i], .events = POLLIN, .revents = 0};
  const timespec limit = to_timespec(at_most);
  ::ppoll(watched, count, &limit, nullptr);
}

}  // namespace capstan
