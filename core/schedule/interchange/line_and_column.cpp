// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/interchange/line_and_column.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace capstan {

std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t newline = before.rfind('\n');
  const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
  return fmt::format("{}:{}", std::ranges::count(before, '\n') + 1, before.size() - start + 1);
}

}  // namespace capstan
