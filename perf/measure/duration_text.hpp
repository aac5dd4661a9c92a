// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace capstan::perf {

/// "0.3 s", "25 s", "4 min 10 s", "2 h 5 min".
inline std::string duration_text(double seconds) {
  const long whole = std::lround(seconds);
  if (seconds < 3) return fmt::format("{:.2g} s", seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace capstan::perf
