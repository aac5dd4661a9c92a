// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/interchange/repeated_key.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace capstan {
namespace {

/// Where the string ends that begins at `at`: its second quotation mark, or the end of the text.
std::size_t end_of_key(std::string_view json, std::size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at)
    if (json[at] == '\\') ++at;
  return at;
}

std::string unquoted(std::string_view quoted) {
  const bool is_plain = quoted.find('\\') == std::string_view::npos;
  return is_plain ? std::string{quoted.substr(1, quoted.size() - 2)}
                  : nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace

/// In valid JSON a string is a key where a colon follows it. Other text is read, too: what follows
/// the JSON, for one.
std::optional<RepeatedKey> repeated_key(std::string_view json) {
  std::vector<std::map<std::string, std::size_t>>
      open;  // the keys of each object, and their places
  for (std::size_t at = 0; at < json.size(); ++at) {
    if (json[at] == '{') open.emplace_back();
    if (json[at] == '}' && !open.empty()) open.pop_back();
    if (json[at] != '"') continue;
    const std::size_t begin = at;
    at = end_of_key(json, at);
    const std::size_t behind = json.find_first_not_of(" \t\r\n", at + 1);
    if (behind == std::string_view::npos || json[behind] != ':' || open.empty()) continue;
    std::string name = unquoted(json.substr(begin, at + 1 - begin));
    const auto [known, is_new] = open.back().try_emplace(std::move(name), begin);
    if (!is_new) return RepeatedKey{known->first, known->second, begin};
  }
  return std::nullopt;
}

}  // namespace capstan
