// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/pmi_line.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "capstan/error.hpp"

namespace capstan::pmi {
namespace {

bool is_printable(unsigned char c) {
  return c >= ' ' && c <= '~';
}

/// The line as an error message shows it: a launcher may have sent any bytes.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 60;
  std::string out{text.substr(0, most)};
  std::ranges::replace_if(out, std::not_fn(is_printable), '?');
  return out + (text.size() > most ? "..." : "");
}

[[noreturn]] void refuse(std::string_view line, std::string_view why) {
  throw BootstrapError(
      fmt::format("the launcher's answer \"{}\" is none of PMI: {}", shown(line), why));
}

}  // namespace

const std::string* Line::find(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &std::pair<std::string, std::string>::first);
  return found == fields.end() ? nullptr : &found->second;
}

std::optional<int> Line::number(std::string_view name) const {
  const std::string* const text = find(name);
  if (!text) return std::nullopt;
  int value = 0;
  const char* const last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, value);
  if (error != std::errc{} || end != last) return std::nullopt;
  return value;
}

std::string to_line(const Line& message) {
  std::string line = "cmd=" + message.command;
  for (const auto& [name, value] : message.fields) line += fmt::format(" {}={}", name, value);
  return line + '\n';
}

Line parse_message(std::string_view line) {
  if (line.size() >= longest_line) refuse(line, "it is too long");
  if (!std::ranges::all_of(line, is_printable)) refuse(line, "it has bytes that are no text");
  Line message;
  for (auto rest = line; !rest.empty();) {
    const auto item = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item.empty()) continue;
    const auto equals = item.find('=');
    if (equals == item.npos || equals == 0) refuse(line, "it is not made of name=value");
    const std::string name{item.substr(0, equals)}, value{item.substr(equals + 1)};
    const bool is_command = name == "cmd";
    if (is_command ? !message.command.empty() : message.find(name) != nullptr)
      refuse(line, "it says something twice");
    if (is_command)
      message.command = value;
    else
      message.fields.emplace_back(name, value);
  }
  if (message.command.empty()) refuse(line, "it has no cmd");
  return message;
}

std::string to_hex(std::string_view text) {
  std::string digits(2 * text.size() + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), reinterpret_cast<const unsigned char*>(text.data()),
                 text.size());
  digits.pop_back();
  return digits;
}

std::string from_hex(std::string_view digits) {
  std::string text(digits.size() / 2, '\0');
  std::size_t length = 0;
  if (digits.size() % 2 != 0 ||
      sodium_hex2bin(reinterpret_cast<unsigned char*>(text.data()), text.size(), digits.data(),
                     digits.size(), nullptr, &length, nullptr) != 0 ||
      length != text.size())
    throw BootstrapError(fmt::format("\"{}\" is not in hexadecimal digits", shown(digits)));
  return text;
}

}  // namespace capstan::pmi
