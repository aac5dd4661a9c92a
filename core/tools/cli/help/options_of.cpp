// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/help/options_of.hpp"

#include <algorithm>

namespace capstan::cli {

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> shown;
  for (const CLI::Option* const option : app.get_options())
    if (!option->get_group().empty()) shown.push_back(option);
  return shown;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) shown.push_back(command);
  return shown;
}

std::string names_of(const CLI::Option& option) {
  std::string names = option.get_name(option.get_positional(), true);
  for (std::size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 2)
    names.insert(at + 1, " ");
  return names;
}

std::string value_of(const CLI::Option& option) {
  const bool is_flag = option.get_expected_max() == 0 || option.get_items_expected_max() == 0;
  return option.get_positional() || is_flag ? "" : option.get_type_name();
}

std::string full_name_of(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent ? full_name_of(*parent) + " " + app.get_name() : app.get_name();
}

std::string page_name(const CLI::App& app) {
  std::string name = full_name_of(app);
  std::ranges::replace(name, ' ', '-');
  return name;
}

}  // namespace capstan::cli
