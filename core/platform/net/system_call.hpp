// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "capstan/error.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {

/// Throws SystemError "<call> failed: <text of errno>[; <remedy>]". The remedy of an error that
/// comes from a limit is to raise that limit, which is named.
[[noreturn]] inline void throw_errno(std::string_view call, std::string_view remedy = {}) {
  const int error = errno;
  const std::string reason = std::generic_category().message(error), limit = limit_behind(error);
  const std::string_view advice = limit.empty() ? remedy : limit;
  throw SystemError(
      fmt::format("{} failed: {}{}{}", call, reason, advice.empty() ? "" : "; ", advice));
}

/// `result` unless it is -1; then throws SystemError as throw_errno does.
inline int checked(int result, std::string_view call, std::string_view remedy = {}) {
  if (result < 0) throw_errno(call, remedy);
  return result;
}

}  // namespace capstan
