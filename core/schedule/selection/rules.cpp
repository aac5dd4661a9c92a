// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <typeinfo>

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

std::string collective_names() {
  std::string names;
  for (const Collective collective : all_collectives())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(collective));
  return names;
}

/// Reads a whole text of rules. All parts are views of it, so that errors know their columns.
class RulesParser {
 public:
  RulesParser(std::string_view text, const AlgorithmRules::Lookup& lookup)
      : text_(text), lookup_(lookup) {}

  std::vector<AlgorithmRules::Rule> parse() const {
    std::vector<AlgorithmRules::Rule> rules;
    for (std::string_view part : split(text_, ';')) {
      const Collective collective = take_collective(part);
      for (const std::string_view rule : split(part, ','))
        rules.push_back(parse_rule(collective, rule));
    }
    return rules;
  }

 private:
  [[noreturn]] void refuse(std::string_view part, std::string_view why) const {
    throw InvalidArgument(
        fmt::format("cannot use the algorithm rule '{}' in column {} of '{}': {}; a rule looks "
                    "like {}",
                    part, part.data() - text_.data() + 1, text_, why, example));
  }

  /// The collective that stands before the first ':', which is removed from `part`.
  Collective take_collective(std::string_view& part) const {
    const std::size_t colon = part.find(':');
    const auto collective = collective_named(part.substr(0, colon));
    if (colon == std::string_view::npos || !collective)
      refuse(part, fmt::format("it does not start with ':' behind one of {}", collective_names()));
    part.remove_prefix(colon + 1);
    return *collective;
  }

  AlgorithmRules::Rule parse_rule(Collective collective, std::string_view text) const {
    const std::size_t colon = text.find(':');
    const bool conditional = colon != std::string_view::npos;
    AlgorithmRules::Rule rule =
        parse_target(collective, conditional ? text.substr(colon + 1) : text);
    if (conditional) add_conditions(rule, split(text.substr(0, colon), ' '));
    rule.text = fmt::format("{}:{}", name_of(collective), text);
    return rule;
  }

  /// "direct", "direct/staged" or "direct/staged/4".
  AlgorithmRules::Rule parse_target(Collective collective, std::string_view text) const {
    const auto parts = split(text, '/');
    AlgorithmRules::Rule rule{algorithm(collective, parts.front())};
    if (parts.size() > 3) refuse(text, "it has more than algorithm/protocol/share of a block");
    if (parts.size() > 1) rule.protocol = protocol(parts[1]);
    if (parts.size() > 2) rule.times_shorter = block_share(parts[2]);
    return rule;
  }

  const Algorithm* algorithm(Collective collective, std::string_view name) const {
    try {
      return lookup_(collective, name);
    } catch (const InvalidArgument& error) {
      if (typeid(error) != typeid(InvalidArgument))
        throw;  // a refused proof: callers tell it apart
      refuse(name, error.what());
    }
  }

  Protocol protocol(std::string_view word) const {
    if (const auto present = present_name_of(word))
      refuse(word, fmt::format("the protocol '{}' is called '{}' now", word, *present));
    if (const auto known = protocol_named(word)) return *known;
    refuse(word,
           "after '/' stands one of staged, inline_packets, shared_inline_packets, streamed, "
           "read_input, read_buffers and write_output");
  }

  std::uint64_t block_share(std::string_view text) const {
    constexpr int most = 64;
    const auto share = number(text);
    if (!share || *share < 1 || *share > most)
      refuse(text, fmt::format("blocks may be 1 to {} times shorter than usual", most));
    return static_cast<std::uint64_t>(*share);
  }

  /// Each name stands once, and so do the sizes, which have none: a second one would hide the
  /// first.
  void add_conditions(AlgorithmRules::Rule& rule,
                      const std::vector<std::string_view>& conditions) const {
    std::vector<std::string_view> names;
    for (const std::string_view condition : conditions) {
      const bool named = condition.find('=') != std::string_view::npos;
      const std::string_view name = named ? condition.substr(0, condition.find('=')) : "the sizes";
      if (std::ranges::find(names, name) != names.end())
        refuse(condition, fmt::format("its rule has a condition on {} already: give one", name));
      names.push_back(name);
      add_condition(rule, condition);
    }
  }

  void add_condition(AlgorithmRules::Rule& rule, std::string_view condition) const {
    const std::size_t equals = condition.find('=');
    const std::string_view name = condition.substr(0, equals);
    if (equals == std::string_view::npos) return set_sizes(rule, condition);
    const std::string_view value = condition.substr(equals + 1);
    if (name == "ranks")
      rule.ranks = numbers(value);
    else if (name == "hosts")
      rule.hosts = numbers(value);
    else if (name == "type")
      for (const std::string_view type : split(value, '|')) rule.types.push_back(type_of(type));
    else if (name == "memory")
      rule.memory = memory_of(value);
    else
      refuse(condition, "conditions are sizes, ranks=, hosts=, type= and memory=");
  }

  void set_sizes(AlgorithmRules::Rule& rule, std::string_view range) const {
    const std::size_t dash = range.find('-');
    const auto from = parse_bytes(range.substr(0, dash));
    const auto to =
        dash == std::string_view::npos ? std::nullopt : parse_bytes(range.substr(dash + 1));
    if (!from || !to || *from >= *to) refuse(range, "its sizes are not 'from-to'");
    rule.from = *from, rule.to = *to;
  }

  /// "4", "2-8", "2-inf".
  NumberRange numbers(std::string_view text) const {
    const std::size_t dash = text.find('-');
    const auto least = number(text.substr(0, dash));
    const auto most = dash == std::string_view::npos ? least : number(text.substr(dash + 1));
    if (!least || !most || *least > *most)
      refuse(text, "expected a number, or 'from-to' or 'from-inf'");
    return {*least, *most};
  }

  static std::optional<int> number(std::string_view text) {
    if (text == "inf") return std::numeric_limits<int>::max();
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
  }

  DataType type_of(std::string_view text) const {
    const auto type = data_type_named(text);
    if (!type) refuse(text, "it is no type, such as f32 or bf16, or several as f32|f64");
    return *type;
  }

  MemoryKind memory_of(std::string_view text) const {
    for (const MemoryKind memory : {MemoryKind::host, MemoryKind::device})
      if (text == name_of(memory)) return memory;
    refuse(text, "it is no memory: host or device");
  }

  const std::string_view text_;
  const AlgorithmRules::Lookup& lookup_;
};

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
  rules.rules_ = RulesParser{text, lookup}.parse();
  std::erase_if(rules.rules_, [](const Rule& rule) { return !rule.algorithm; });
  return rules;
}

bool AlgorithmRules::Rule::matches(const RuledCall& call) const {
  constexpr Bytes inf{std::numeric_limits<std::uint64_t>::max()};
  return algorithm->collective == call.collective && from <= call.bytes &&
         (call.bytes < to || to == inf) && ranks.contains(call.ranks) &&
         hosts.contains(call.hosts) && (!memory || memory == call.memory) &&
         (types.empty() || std::ranges::find(types, call.type) != types.end());
}

const AlgorithmRules::Rule* AlgorithmRules::find(const RuledCall& call) const {
  for (const Rule& rule : rules_)
    if (rule.matches(call)) return &rule;
  return nullptr;
}

}  // namespace capstan
