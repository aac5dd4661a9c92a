// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "perf/measure/table.hpp"

namespace capstan::perf {

/// A text with lines of at most `width` characters. A longer line continues below its last column,
/// if that begins in the first half, and otherwise a little farther in than it begins; that of a
/// comment is one, too. Words are
/// broken only where they are longer than a line. Control characters are made visible: what files
/// and the environment tell is in such texts.
std::string folded(std::string_view text, int width);

/// Prints a text, folded to the width of the terminal.
template <class... Values>
void print_folded(fmt::format_string<Values...> format, Values&&... values) {
  fmt::print("{}", folded(fmt::format(format, std::forward<Values>(values)...), line_width()));
}

}  // namespace capstan::perf
