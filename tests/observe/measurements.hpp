// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "capstan/observe/profiler.hpp"

namespace capstan {

inline constexpr std::chrono::steady_clock::time_point moment{std::chrono::hours{1}};
inline constexpr Bytes mebibyte{1 << 20};

inline Measurement all_reduce_of(Bytes bytes, std::chrono::nanoseconds duration) {
  return {.operation = "AllReduce",
          .bytes = bytes,
          .began = moment,
          .ended = moment + duration,
          .ranks = 4,
          .algorithm = "Ring"};
}

}  // namespace capstan
