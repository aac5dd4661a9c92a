// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/folded.hpp"

#include <algorithm>

#include "core/base/printable.hpp"

namespace capstan::perf {
namespace {

/// Where a line continues: see folded().
std::size_t hanging_indent(std::string_view line, std::size_t width) {
  const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
  std::size_t column = start + 4;
  for (std::size_t at = start; (at = line.find("  ", at)) != line.npos;) {
    at = line.find_first_not_of(' ', at);
    if (at == line.npos || at > width / 2) break;
    column = at;
  }
  return column < width / 2 + 1 ? column : 4;
}

/// The length of the next part of a line: up to a space, if there is one behind `from`.
std::size_t length_of_part(std::string_view line, std::size_t from, std::size_t width) {
  const std::size_t space = line.rfind(' ', width);
  return space != line.npos && space > from ? space : width;
}

std::string folded_line(std::string_view line, std::size_t width) {
  if (line.size() <= width) return std::string{line};
  std::string indent(hanging_indent(line, width), ' ');
  if (line.front() == '#') indent.front() = '#';
  std::string text, rest{line};
  while (rest.size() > width) {
    const std::size_t from = std::min(rest.find_first_not_of(' '), rest.size());
    const std::size_t length = length_of_part(rest, from, width);
    text += rest.substr(0, length) + "\n";
    const std::size_t next = rest.find_first_not_of(' ', length);
    if (next == rest.npos) return text.substr(0, text.size() - 1);
    rest = indent + rest.substr(next);
  }
  return text + rest;
}

}  // namespace

std::string folded(std::string_view text, int width) {
  const auto limit = static_cast<std::size_t>(std::max(width, 20));
  std::string all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    all += folded_line(printable(text.substr(0, end), std::string::npos), limit);
    if (end < text.size()) all += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

}  // namespace capstan::perf
