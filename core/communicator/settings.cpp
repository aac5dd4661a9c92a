// SPDX-License-Identifier: Apache-2.0
#include "capstan/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "capstan/error.hpp"
#include "core/communicator/setting_table.hpp"
#include "core/platform/net/nearest.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/selection/rules.hpp"

namespace capstan {
namespace {

std::optional<std::string_view> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (!value || !*value) return std::nullopt;
  return value;
}

/// Refuses the former name of a variable, which would otherwise be ignored in silence.
void refuse_renamed(const std::string& former, std::string_view name) {
  if (variable(former)) throw InvalidArgument(fmt::format("{} is called {} now", former, name));
}

/// Throws for rules that cannot be read, and for schedules that cannot.
void check_rules(const Settings& settings) {
  AddedAlgorithms& added = AddedAlgorithms::of_process();
  added.add_paths(settings.schedules);
  AlgorithmRules::parse(settings.algorithm, [&](Collective collective, auto name) {
    return added.check_name(collective, name);
  });
}

const Setting& setting_named(std::string_view name) {
  const auto table = setting_table();
  const auto found = std::ranges::find(table, name, &Setting::name);
  if (found != table.end()) return *found;
  const auto names = Settings::names();
  const std::string near = nearest(name, {names.begin(), names.end()});
  throw InvalidArgument(fmt::format("there is no setting '{}'{}", name,
                                    near.empty()
                                        ? fmt::format("; there are {}", fmt::join(names, ", "))
                                        : fmt::format(": did you mean {}?", near)));
}

}  // namespace

std::string_view name_of(Wire wire) {
  return wire_names.at(static_cast<std::size_t>(wire));
}

std::string_view name_of(Reproducible promise) {
  return reproducible_names.at(static_cast<std::size_t>(promise));
}

Settings Settings::from_environment() {
  Settings settings;
  refuse_renamed("CAPSTAN_TRIALS", "CAPSTAN_AUTOTUNE");
  for (const Setting& setting : setting_table()) {
    const std::string name = setting.variable();
    if (const auto text = variable(name)) setting.read(settings, name, *text);
  }
  check_rules(settings);
  return settings;
}

std::vector<std::string_view> Settings::names() {
  std::vector<std::string_view> names;
  for (const Setting& setting : setting_table()) names.push_back(setting.name);
  return names;
}

void Settings::set(std::string_view name, std::string_view text) {
  setting_named(name).read(*this, name, text);
}

std::string Settings::text(std::string_view name) const {
  return setting_named(name).text(*this);
}

}  // namespace capstan
