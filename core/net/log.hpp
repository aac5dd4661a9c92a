#pragma once

#include <spdlog/spdlog.h>

#include <string>
#include <string_view>

namespace capstan {

/// The library's log, which goes to standard error: standard output is the program's. Never
/// destroyed, so that threads may log until the process ends. Thread-safe.
spdlog::logger& log();

/// A text of others in one line that is safe on a terminal: control characters, and bytes that are
/// no UTF-8, are written as \x1b. What is longer than `most` bytes is cut off and ends in "...".
std::string printable(std::string_view text, std::size_t most = 1000);

}  // namespace capstan
