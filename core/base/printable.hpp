// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan {

/// A text of others in one line that is safe on a terminal: control characters, and bytes that are
/// no UTF-8, are written as \x1b. What is longer than `most` bytes is cut off and ends in "...".
std::string printable(std::string_view text, std::size_t most = 1000);
/// A text of several lines, such as the error of a peer, made safe line by line. Nothing is cut
/// off.
std::string printable_lines(std::string_view text);

}  // namespace capstan
