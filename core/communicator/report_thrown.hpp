// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "core/platform/net/rate_limited_warnings.hpp"

namespace capstan {

/// Logs what a callback of the program threw, since nobody can catch it. Thread-safe.
inline void report_thrown(const std::string& by, const std::exception& error) {
  static auto& warnings = *new RateLimitedWarnings("nobody catches what is thrown by");
  warnings.warn(by, error.what());
}

}  // namespace capstan
