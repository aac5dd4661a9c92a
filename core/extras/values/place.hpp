// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <string>
#include <string_view>

namespace capstan::values::detail {

/// "stencil.cpp:42 (step)". Compilers write out all arguments of a function, g++ those of
/// coroutines twice.
inline std::string place_of(const std::source_location& where) {
  std::string_view file = where.file_name(), function = where.function_name();
  file.remove_prefix(file.find_last_of('/') + 1);
  function = function.substr(0, function.find('('));
  function.remove_prefix(function.find_last_of(" :") + 1);
  return fmt::format("{}:{} ({})", file, where.line(), function);
}

}  // namespace capstan::values::detail
