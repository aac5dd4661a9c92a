// SPDX-License-Identifier: Apache-2.0

// How each kind of setting is read from text and shown.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/communicator/setting_table.hpp"
#include "core/schedule/selection/rules.hpp"

namespace capstan {
namespace {

template <class Number>
std::optional<Number> number_of_text(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

/// Each of these returns whether it could read the text.
bool read_as(const Setting::Seconds& kind, Settings& settings, std::string_view text) {
  const auto seconds = number_of_text<double>(text);
  const auto limit = seconds && *seconds != 0 ? time_limit_of(*seconds) : std::nullopt;
  if (limit) settings.*kind.member = *limit;
  return limit.has_value();
}

bool read_as(const Setting::Text& kind, Settings& settings, std::string_view text) {
  settings.*kind.member = text;
  return true;
}

bool read_as(const Setting::Switch& kind, Settings& settings, std::string_view text) {
  settings.*kind.member = text == "1";
  return text == "0" || text == "1";
}

bool read_as(const Setting::Number& kind, Settings& settings, std::string_view text) {
  const auto number = number_of_text<int>(text);
  if (!number || *number < kind.least || *number > kind.most) return false;
  settings.*kind.member = *number;
  return true;
}

/// The default counts as well, as 0 is one that lies below the bounds.
bool read_as(const Setting::Size& kind, Settings& settings, std::string_view text) {
  const auto size = parse_bytes(text);
  const bool is_default = size == Settings{}.*kind.member;
  if (!is_default && (!size || *size < kind.least || *size > kind.most)) return false;
  settings.*kind.member = *size;
  return true;
}

template <class Enum, std::size_t count>
bool read_as(const Setting::Choice<Enum, count>& kind, Settings& settings, std::string_view text) {
  const auto found = std::ranges::find(kind.names, text);
  if (found == kind.names.end()) return false;
  settings.*kind.member = static_cast<Enum>(found - kind.names.begin());
  return true;
}

bool read_as(const Setting::ProofLimit&, Settings& settings, std::string_view text) {
  settings.trust_long_proofs = text == "trust";
  return settings.trust_long_proofs ||
         read_as(Setting::Seconds{&Settings::proof_limit}, settings, text);
}

std::string expected_by(const Setting::Switch&) {
  return "0 or 1";
}

template <class Enum, std::size_t count>
std::string expected_by(const Setting::Choice<Enum, count>& kind) {
  return fmt::format("{} or {}", fmt::join(kind.names.begin(), kind.names.end() - 1, ", "),
                     kind.names.back());
}

template <class Kind>
std::string expected_by(const Kind&) {
  return "a time in seconds above 0, for example 60 or 0.5";
}

std::string shown(const Setting::Seconds& kind, const Settings& settings) {
  return fmt::format("{}", static_cast<double>((settings.*kind.member).count()) / 1000);
}

std::string shown(const Setting::Text& kind, const Settings& settings) {
  return settings.*kind.member;
}

std::string shown(const Setting::Switch& kind, const Settings& settings) {
  return settings.*kind.member ? "1" : "0";
}

std::string shown(const Setting::Number& kind, const Settings& settings) {
  return fmt::format("{}", settings.*kind.member);
}

/// In the largest unit that divides it.
std::string shown(const Setting::Size& kind, const Settings& settings) {
  std::uint64_t size = (settings.*kind.member).value();
  std::size_t unit = 0;
  for (; unit < 3 && size > 0 && size % 1024 == 0; ++unit) size /= 1024;
  constexpr std::string_view units[] = {"", "k", "m", "g"};
  return fmt::format("{}{}", size, units[unit]);
}

template <class Enum, std::size_t count>
std::string shown(const Setting::Choice<Enum, count>& kind, const Settings& settings) {
  return std::string{kind.names.at(static_cast<std::size_t>(settings.*kind.member))};
}

std::string shown(const Setting::ProofLimit&, const Settings& settings) {
  return settings.trust_long_proofs ? "trust"
                                    : shown(Setting::Seconds{&Settings::proof_limit}, settings);
}

}  // namespace

std::string Setting::variable() const {
  std::string variable = fmt::format("CAPSTAN_{}", name);
  std::ranges::transform(variable, variable.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  return variable;
}

void Setting::read(Settings& settings, std::string_view label, std::string_view text) const {
  Settings changed = settings;
  const bool is_read = std::visit([&](const auto& of) { return read_as(of, changed, text); }, kind);
  if (is_read) {
    settings = std::move(changed);
    return;
  }
  const std::string wanted = expected.empty()
                                 ? std::visit([](const auto& of) { return expected_by(of); }, kind)
                                 : std::string{expected};
  throw InvalidArgument(fmt::format("{}='{}': expected {}", label, text, wanted));
}

std::string Setting::text(const Settings& settings) const {
  return std::visit([&](const auto& of) { return shown(of, settings); }, kind);
}

bool Setting::is_secret() const {
  const auto* const text = std::get_if<Text>(&kind);
  return text && text->secret;
}

}  // namespace capstan
