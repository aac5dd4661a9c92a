// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

// Numbers in the words of a command: one parser for all of them.

namespace capstan::cli {

/// The number that all of a text is, and nothing before or behind it. Empty for what is none, for
/// one that T cannot hold, and for "nan" and "inf".
template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

/// "1 to 4096".
template <class T>
std::string range_text(T least, T most) {
  if constexpr (std::is_floating_point_v<T>) return fmt::format("{:g} to {:g}", least, most);
  return fmt::format("{} to {}", least, most);
}

/// Empty, or why a text is no number from `least` to `most`.
template <class T>
std::string why_no_number(std::string_view text, T least, T most) {
  const auto value = number_of<T>(text);
  if (value && *value >= least && *value <= most) return "";
  return fmt::format("'{}' is not a {}number from {}", text,
                     std::is_floating_point_v<T> ? "" : "whole ", range_text(least, most));
}

/// Accepts such numbers alone. An option without this, or without another reader of its own, takes
/// no number.
template <class T>
CLI::Validator number_from(T least, T most) {
  const auto check = [=](const std::string& text) { return why_no_number(text, least, most); };
  return CLI::Validator{check, range_text(least, most)};
}

}  // namespace capstan::cli
