// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

// Valid JSON documents with some of their values changed. Arbitrary text is hardly ever JSON, so
// that it does not reach what looks at values.

namespace capstan::fuzz {

/// All values of a document, itself first.
inline std::vector<nlohmann::json*> values_of(nlohmann::json& document) {
  std::vector<nlohmann::json*> values{&document};
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i]->is_structured())
      for (nlohmann::json& value : *values[i]) values.push_back(&value);
  return values;
}

inline nlohmann::json some_number(Source& source) {
  constexpr std::array<double, 8> fractions{0.5, -1, 1e-9, 1e9, 1e18, 1e300, 5e-324, 1.7e308};
  constexpr std::array<std::uint64_t, 6> edges{1 << 16,
                                               std::uint64_t{1} << 31,
                                               std::uint64_t{1} << 32,
                                               std::uint64_t{1} << 40,
                                               std::uint64_t{1} << 63,
                                               ~std::uint64_t{0}};
  const std::uint8_t kind = source.byte(), which = source.byte();
  switch (kind % 4) {
    case 0:
      return fractions[which % fractions.size()];
    case 1:
      return edges[which % edges.size()] - kind / 128;
    case 2:
      return -which;
    default:
      return which;
  }
}

/// Takes a value away or repeats one.
inline void edit_members(nlohmann::json& value, Source& source) {
  if (!value.is_structured() || value.empty()) return;
  const bool take = source.byte() % 2 == 0;
  const std::size_t at = source.byte() % value.size();
  const auto member = std::next(value.begin(), static_cast<std::ptrdiff_t>(at));
  if (take)
    value.erase(member);
  else if (value.is_array())
    value.insert(member, nlohmann::json(*member));
}

/// Changes some values, as the source says, and writes the document.
inline std::string edited(nlohmann::json document, Source& source) {
  constexpr std::size_t most_values = 4096;
  while (!source.empty()) {
    const auto values = values_of(document);
    if (values.size() > most_values) break;
    const auto pick = [&]() -> nlohmann::json& {
      const std::size_t high = source.byte();
      return *values[(high * 256 + source.byte()) % values.size()];
    };
    nlohmann::json& value = pick();
    switch (source.byte() % 5) {
      case 0:
        value = some_number(source);
        break;
      case 1:
        value = nlohmann::json(pick());
        break;
      case 2:
        value = std::string{text_of(source.bytes(source.byte() % 8))};
        break;
      case 3:
        if (value.is_object())
          value[std::string{text_of(source.bytes(source.byte() % 8))}] = source.byte();
        else
          value = source.byte() % 2 == 0;
        break;
      default:
        edit_members(value, source);
    }
  }
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The input of a reader of JSON: the first byte says whether what follows is the text, or edits of
/// which document.
inline std::string json_text(Source& source, const std::vector<nlohmann::json>& documents) {
  const std::size_t kind = source.byte();
  if (kind == 0) return std::string{text_of(source.rest())};
  return edited(documents[kind % documents.size()], source);
}

/// The documents as texts, and inputs that change a value of each.
inline std::vector<std::string> json_seeds(const std::vector<nlohmann::json>& documents) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    all.push_back('\0' + documents[i].dump());
    const std::size_t kind = i == 0 ? documents.size() : i;
    all.push_back(static_cast<char>(kind) + std::string{"\1\2\0\3\4", 5});
  }
  return all;
}

}  // namespace capstan::fuzz
