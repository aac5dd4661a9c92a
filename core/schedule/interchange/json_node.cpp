// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/interchange/json_node.hpp"

#include <algorithm>

#include "capstan/error.hpp"
#include "core/schedule/interchange/line_and_column.hpp"
#include "core/schedule/interchange/repeated_key.hpp"

namespace capstan {
namespace {

/// The part of nlohmann's message that follows the position in it.
std::string reason_of(const std::string& message) {
  const std::size_t at = message.find(": ");
  return at == std::string::npos ? message : message.substr(at + 2);
}

/// Where the string ends that begins at `at`: its second quotation mark, or the last character.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at, text.size() - 1);
}

/// A value for a message. Lists and objects are named only: they may lie in each other so deeply
/// that writing them exhausts the stack.
std::string in_words(const nlohmann::json& value) {
  constexpr std::size_t longest = 40;
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.dump().substr(0, longest);
}

bool is_in_number(char character) {
  return std::string_view{"0123456789+-.eE"}.find(character) != std::string_view::npos;
}

/// Where the number stands that nlohmann's message quotes: "number overflow parsing '1e999'".
std::size_t place_of_number(std::string_view text, std::string_view message) {
  const std::size_t end = message.rfind('\''), begin = message.rfind('\'', end - 1);
  if (end == message.npos || begin == message.npos) return 0;
  const std::string_view number = message.substr(begin + 1, end - begin - 1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') at = end_of_string(text, at);
    if (!is_in_number(text[at])) continue;
    const std::size_t first = at;
    while (at < text.size() && is_in_number(text[at])) ++at;
    if (text.substr(first, at - first) == number) return first;
    --at;
  }
  return 0;
}

}  // namespace

nlohmann::json JsonNode::parse(std::string_view text, std::string_view file,
                               std::string_view remedy) {
  const auto refuse = [&](std::size_t byte, const std::string& why) {
    throw InvalidArgument(fmt::format("{}:{}: this is no JSON ({}): {}", file,
                                      line_and_column(text, byte), why, remedy));
  };
  try {
    nlohmann::json value = nlohmann::json::parse(text);
    if (const auto repeated = repeated_key(text))
      throw InvalidArgument(
          fmt::format("{}:{}: the key '{}' stands a second time in one object, after {}: leave one "
                      "of the two out",
                      file, line_and_column(text, repeated->second), repeated->name,
                      line_and_column(text, repeated->first)));
    return value;
  } catch (const nlohmann::json::parse_error& error) {
    refuse(error.byte == 0 ? 0 : error.byte - 1, reason_of(error.what()));
  } catch (const nlohmann::json::out_of_range& error) {
    refuse(place_of_number(text, error.what()), "a number that no double holds");
  }
  return {};
}

void JsonNode::refuse(std::string_view what) const {
  throw InvalidArgument(
      fmt::format("{}: {}: {}", file_, path_.empty() ? "the whole file" : path_, what));
}

void JsonNode::allow(std::initializer_list<std::string_view> names) const {
  if (!value_->is_object()) refuse("this has to be an object, {...}");
  for (const auto& [name, value] : value_->items())
    if (std::ranges::find(names, name) == names.end()) {
      std::string known;
      for (const std::string_view each : names)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", each);
      refuse(
          fmt::format("it has a member '{}', which nothing reads: leave it out, or name one of {}",
                      name, known));
    }
}

JsonNode JsonNode::at(std::string_view name) const {
  auto found = find(name);
  if (!found) refuse(fmt::format("the member '{}' is missing: add it", name));
  return *std::move(found);
}

std::optional<JsonNode> JsonNode::find(std::string_view name) const {
  if (!value_->is_object()) refuse("this has to be an object, {...}");
  const auto found = value_->find(name);
  if (found == value_->end()) return std::nullopt;
  return JsonNode{*found, file_,
                  path_.empty() ? std::string{name} : fmt::format("{}.{}", path_, name)};
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_->is_array()) refuse("this has to be a list, [...]");
  std::vector<JsonNode> nodes;
  for (std::size_t i = 0; i < value_->size(); ++i)
    nodes.push_back(JsonNode{(*value_)[i], file_, fmt::format("{}[{}]", path_, i)});
  return nodes;
}

std::string JsonNode::text() const {
  if (!value_->is_string()) refuse("this has to be a text, \"...\"");
  return value_->get<std::string>();
}

bool JsonNode::flag() const {
  if (!value_->is_boolean()) refuse("this has to be true or false");
  return value_->get<bool>();
}

std::uint64_t JsonNode::number(std::uint64_t most) const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > most)
    refuse(fmt::format("{} is not a whole number from 0 to {}", in_words(*value_), most));
  return value_->get<std::uint64_t>();
}

}  // namespace capstan
