// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace capstan {
namespace {

/// The length of the character at the begin of the text; 0 if it is none that may be shown.
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xc2 && byte(1) < 0xa0) return 0;                      // control characters again
  if (first == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xa8) return 0;  // separators, directions
  return length;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    const std::string next =
        length > 0 ? std::string{text.substr(0, length)}
                   : fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    if (shown.size() + next.size() > most) return shown + "...";
    shown += next;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  while (true) {
    const std::string_view line = text.substr(0, text.find('\n'));
    shown += printable(line, std::string::npos);
    if (line.size() == text.size()) return shown;
    shown += '\n';
    text.remove_prefix(line.size() + 1);
  }
}

}  // namespace capstan
