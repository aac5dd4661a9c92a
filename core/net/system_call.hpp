#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "capstan/error.hpp"

namespace capstan {

/// Throws SystemError "<call> failed: <text of errno>[; <remedy>]".
[[noreturn]] inline void throw_errno(std::string_view call, std::string_view remedy = {}) {
  const std::string reason = std::generic_category().message(errno);
  throw SystemError(
      fmt::format("{} failed: {}{}{}", call, reason, remedy.empty() ? "" : "; ", remedy));
}

/// `result` unless it is -1; then throws SystemError as throw_errno does.
inline int checked(int result, std::string_view call, std::string_view remedy = {}) {
  if (result < 0) throw_errno(call, remedy);
  return result;
}

}  // namespace capstan
