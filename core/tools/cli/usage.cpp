// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/base/printable.hpp"
#include "core/platform/net/nearest.hpp"

namespace capstan::cli {
namespace {

using Names = std::vector<std::string>;

Names commands_of(const CLI::App& app) {
  Names names;
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) names.push_back(command->get_name());  // "": it is hidden
  return names;
}

/// Without dashes, short ones first.
Names options_of(const CLI::App& command) {
  Names names, long_names;
  for (const CLI::Option* option : command.get_options()) {
    std::ranges::copy(option->get_snames(), std::back_inserter(names));
    std::ranges::copy(option->get_lnames(), std::back_inserter(long_names));
  }
  std::ranges::copy(long_names, std::back_inserter(names));
  return names;
}

std::string unknown_option(const CLI::App& command, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  const std::size_t dashes = std::min(option.find_first_not_of('-'), option.size());
  const std::string name = nearest(option.substr(dashes), options_of(command));
  const bool starts_program = command.get_name() == "run";
  const std::string unknown =
      fmt::format("unknown option {}{}", option,
                  starts_program ? " (those of the program stand after --)" : "");
  if (name.empty()) return unknown + ";";
  return fmt::format("{}: did you mean {}{}?", unknown, name.size() == 1 ? "-" : "--", name);
}

std::string unknown_word(const CLI::App& command, const std::string& word) {
  if (word.starts_with('-')) return unknown_option(command, word);
  const Names commands = commands_of(command);
  if (commands.empty()) return fmt::format("'{}' is one word too many;", word);
  const std::string name = nearest(word, commands);
  if (name.empty()) return fmt::format("no command '{}';", word);
  return fmt::format("no command '{}': did you mean '{}'?", word, name);
}

/// CLI11 says "PLACE: WORD not in {NAME,NAME}".
std::string mistake(const std::string& error) {
  static constexpr std::string_view middle = " not in {";
  const std::size_t end = error.rfind(middle), colon = error.rfind(": ", end);
  if (end == std::string::npos || colon == std::string::npos || !error.ends_with('}'))
    return error + ";";
  const std::string place = error.substr(0, colon), word = error.substr(colon + 2, end - colon - 2);
  const std::size_t list_begin = end + middle.size();
  std::istringstream list{error.substr(list_begin, error.size() - 1 - list_begin)};
  Names names;
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  const std::string name = nearest(word, names);
  if (name.empty()) return error + ";";
  return fmt::format("{}: no '{}': did you mean '{}'?", place, word, name);
}

/// The error line of a command (the program or a subcommand): the mistake, and where its help is.
std::string error_line(const CLI::App& command, const std::string& what) {
  const bool whole = command.get_parent() == nullptr;
  return fmt::format("capstan: {} see capstan {}--help\n", printable_lines(what),
                     whole ? "" : command.get_name() + " ");
}

}  // namespace

std::string usage_error(const CLI::App* app, const CLI::Error& error) {
  const auto given = app->get_subcommands();
  const CLI::App* const command = given.empty() ? app : given.front();
  // With a value of its own, an unknown option leaves the program's words to `app`.
  if (command != app)
    for (const std::string& word : command->remaining())
      if (word != "--" && word.starts_with('-'))
        return error_line(*command, unknown_word(*command, word));
  for (const CLI::App* const place : {app, command})
    for (const std::string& word : place->remaining())
      if (word != "--") return error_line(*place, unknown_word(*place, word));
  return error_line(*command, given.empty() ? "no command was given;" : mistake(error.what()));
}

}  // namespace capstan::cli
