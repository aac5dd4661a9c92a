#include "core/selection/rules.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "capstan/error.hpp"

namespace capstan {
namespace {

constexpr std::string_view example = "all_reduce:0-4k:flat,4k-1m:direct,1m-inf:ring";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

[[noreturn]] void refuse(std::string_view part, std::string_view why) {
  throw InvalidArgument(fmt::format("cannot use the algorithm rule '{}': {}; a rule looks like {}",
                                    part, why, example));
}

std::string collective_names() {
  std::string names;
  for (const Collective collective : all_collectives())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(collective));
  return names;
}

/// The collective that stands before the first ':', which is removed from `text`.
Collective take_collective(std::string_view& text) {
  const std::size_t colon = text.find(':');
  const auto collective = collective_named(text.substr(0, colon));
  if (colon == std::string_view::npos || !collective)
    refuse(text, fmt::format("it does not start with ':' behind one of {}", collective_names()));
  text.remove_prefix(colon + 1);
  return *collective;
}

/// "direct" or "direct/staged".
AlgorithmRules::Rule parse_target(Collective collective, std::string_view text, Bytes from,
                                  Bytes to, const AlgorithmRules::Lookup& lookup) {
  const std::size_t slash = text.find('/');
  AlgorithmRules::Rule rule{from, to, lookup(collective, text.substr(0, slash))};
  if (slash == std::string_view::npos) return rule;
  const std::string_view word = text.substr(slash + 1);
  rule.protocol = protocol_named(word);
  if (const auto present = present_name_of(word))
    refuse(text, fmt::format("the protocol '{}' is called '{}' now", word, *present));
  if (!rule.protocol)
    refuse(text,
           "after '/' stands one of staged, inline_packets, shared_inline_packets, read_input, "
           "read_buffers and write_output");
  return rule;
}

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
  if (text == "inf") return Bytes{std::numeric_limits<std::uint64_t>::max()};
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit{end, static_cast<std::size_t>(text.data() + text.size() - end)};
  constexpr std::string_view units = "kmg";
  if (unit.empty()) return Bytes{value};
  const std::size_t power = unit.size() == 1 ? units.find(static_cast<char>(unit[0] | 0x20)) : 3;
  if (power >= units.size()) return std::nullopt;
  const std::uint64_t factor = std::uint64_t{1} << 10 * (power + 1);
  if (value > std::numeric_limits<std::uint64_t>::max() / factor) return std::nullopt;
  return Bytes{value * factor};
}

AlgorithmRules AlgorithmRules::parse(std::string_view text, const Lookup& lookup) {
  AlgorithmRules rules;
  if (text.empty()) return rules;
  for (std::string_view part : split(text, ';')) {
    const Collective collective = take_collective(part);
    for (const std::string_view rule : split(part, ',')) {
      const std::size_t colon = rule.find(':');
      if (colon == std::string_view::npos) {
        rules.rules_.push_back(
            parse_target(collective, rule, Bytes{0}, *parse_bytes("inf"), lookup));
        continue;
      }
      const std::string_view range = rule.substr(0, colon);
      const std::size_t dash = range.find('-');
      const auto from = parse_bytes(range.substr(0, dash));
      const auto to =
          dash == std::string_view::npos ? std::nullopt : parse_bytes(range.substr(dash + 1));
      if (!from || !to || *from >= *to) refuse(rule, "its sizes are not 'from-to'");
      rules.rules_.push_back(parse_target(collective, rule.substr(colon + 1), *from, *to, lookup));
    }
  }
  std::erase_if(rules.rules_, [](const Rule& rule) { return !rule.algorithm; });
  return rules;
}

const AlgorithmRules::Rule* AlgorithmRules::find(Collective collective, Bytes bytes) const {
  constexpr Bytes inf{std::numeric_limits<std::uint64_t>::max()};
  for (const Rule& rule : rules_)
    if (rule.algorithm->collective == collective && rule.from <= bytes &&
        (bytes < rule.to || rule.to == inf))
      return &rule;
  return nullptr;
}

}  // namespace capstan
