// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan {

/// A value of a JSON text, with its path for messages. Every function throws InvalidArgument where
/// the value is not what is asked for: "FILE: schedules[2].steps[7].peer: ...".
class JsonNode {
 public:
  /// Both are kept by reference.
  JsonNode(const nlohmann::json& value, std::string_view file) : value_(&value), file_(file) {}
  /// Throws InvalidArgument with line and column where the text is no JSON, and says what to do:
  /// `remedy`; and where a key stands twice in one object.
  static nlohmann::json parse(
      std::string_view text, std::string_view file,
      std::string_view remedy = "correct it there, or write the file anew by `capstan export`");

  [[noreturn]] void refuse(std::string_view what) const;

  /// Refuses members of other names.
  void allow(std::initializer_list<std::string_view> names) const;
  JsonNode at(std::string_view name) const;
  std::optional<JsonNode> find(std::string_view name) const;
  std::vector<JsonNode> elements() const;

  std::string text() const;
  bool flag() const;
  /// From 0 to `most`.
  std::uint64_t number(std::uint64_t most) const;
  /// The index of the text in a list of names.
  template <class Names>
  std::size_t one_of(const Names& names) const {
    const std::string word = text();
    std::string known;
    std::size_t index = 0;
    for (const auto& name : names) {
      if (word == name) return index;
      known += fmt::format("{}{}", index++ == 0 ? "" : ", ", name);
    }
    refuse(fmt::format("'{}' is none of {}", word, known));
  }

 private:
  JsonNode(const nlohmann::json& value, std::string_view file, std::string path)
      : value_(&value), file_(file), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string_view file_;
  std::string path_;
};

}  // namespace capstan
