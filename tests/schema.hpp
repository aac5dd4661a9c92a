// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace capstan::test {

/// Checks documents by a JSON schema, as far as those of this repository need it: type, const,
/// enum, minimum, maximum, required, properties, additionalProperties (false), items, oneOf and
/// $ref within the file.
class Schema {
 public:
  explicit Schema(const std::string& file) : root_(nlohmann::json::parse(std::ifstream{file})) {}

  /// The faults of a document, a line each: "/results/0/ranks: not of type integer".
  std::vector<std::string> faults(const nlohmann::json& document) const {
    std::vector<std::string> found;
    check(document, root_, "", found);
    return found;
  }

 private:
  using json = nlohmann::json;
  using Faults = std::vector<std::string>;

  static bool is_of_type(const json& value, const std::string& type) {
    const std::pair<const char*, bool> known[] = {
        {"object", value.is_object()}, {"array", value.is_array()},
        {"string", value.is_string()}, {"boolean", value.is_boolean()},
        {"number", value.is_number()}, {"integer", value.is_number_integer()},
        {"null", value.is_null()}};
    return std::ranges::any_of(known,
                               [&](const auto& each) { return each.first == type && each.second; });
  }

  void check(const json& value, const json& schema, const std::string& at, Faults& found) const {
    const auto complain = [&](const std::string& what) { found.push_back(at + ": " + what); };
    if (schema.contains("$ref"))
      check(value, root_.at(json::json_pointer{schema["$ref"].get<std::string>().substr(1)}), at,
            found);
    if (schema.contains("type") && !is_of_type(value, schema["type"]))
      return complain("not of type " + schema["type"].get<std::string>());
    if (schema.contains("const") && value != schema["const"]) complain("not the constant");
    if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end())
      complain("not one of the values");
    if (schema.contains("minimum") && value < schema["minimum"]) complain("below the minimum");
    if (schema.contains("maximum") && value > schema["maximum"]) complain("above the maximum");
    if (schema.contains("oneOf")) check_one_of(value, schema["oneOf"], at, found);
    if (value.is_object()) check_members(value, schema, at, found);
    if (value.is_array() && schema.contains("items"))
      for (std::size_t i = 0; i < value.size(); ++i)
        check(value[i], schema["items"], at + "/" + std::to_string(i), found);
  }

  /// The faults of the alternative that fits best, unless one fits.
  void check_one_of(const json& value, const json& all, const std::string& at,
                    Faults& found) const {
    Faults fewest;
    for (bool first = true; const json& each : all) {
      Faults of_this;
      check(value, each, at, of_this);
      if (std::exchange(first, false) || of_this.size() < fewest.size()) fewest = of_this;
    }
    found.insert(found.end(), fewest.begin(), fewest.end());
  }

  void check_members(const json& value, const json& schema, const std::string& at,
                     Faults& found) const {
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name.get<std::string>()))
        found.push_back(at + ": lacks " + name.get<std::string>());
    const json known = schema.value("properties", json::object());
    for (const auto& [name, member] : value.items())
      if (known.contains(name))
        check(member, known[name], at + "/" + name, found);
      else if (schema.value("additionalProperties", json(true)) == false)
        found.push_back(at + ": has an unknown " + name);
  }

  json root_;
};

}  // namespace capstan::test
