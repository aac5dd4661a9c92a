// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::pmi {

/// A line of PMI's wire protocol, version 1, such as "cmd=get_result rc=0 value=7f". Names and
/// values are printable and have no blanks. Launchers may insist on the usual order.
struct Line {
  std::string command;
  std::vector<std::pair<std::string, std::string>> fields{};  ///< all but the command, in order
  bool operator==(const Line&) const = default;

  /// Null if there is no such field.
  const std::string* find(std::string_view name) const;
  /// Empty if it is missing or no whole number.
  std::optional<int> number(std::string_view name) const;
};

/// Lines that are longer, with their newline, are refused.
inline constexpr std::size_t longest_line = 4096;

/// The line as it is sent, with its newline.
std::string to_line(const Line& message);
/// Reads a line without its newline. Throws BootstrapError if it is none of PMI's.
Line parse_message(std::string_view line);

/// Encodes any text as a text without blanks, twice as long. Decoding throws BootstrapError.
std::string to_hex(std::string_view text);
std::string from_hex(std::string_view digits);

}  // namespace capstan::pmi
