// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/help/completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/tools/cli/help/options_of.hpp"

namespace capstan::cli {
namespace {

/// "-n", "--ranks": of all options.
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* const option : options_of(app)) {
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* const command : commands_of(program)) names.push_back(command->get_name());
  return names;
}

/// Words by the command that stands first; elsewhere files.
std::string bash_script(const CLI::App& program) {
  std::string cases;
  for (const CLI::App* const command : commands_of(program))
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(),
                         fmt::join(flags_of(*command), " "));
  return fmt::format(
      "_{0}() {{\n"
      "  local words current=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "{1}"
      "    *) words=\"{2} {3}\" ;;\n"
      "  esac\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then words=\"{2} {3}\"; fi\n"
      "  if [[ $current == -* || $COMP_CWORD = 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o default -F _{0} {0}\n",
      program.get_name(), cases, fmt::join(command_names(program), " "),
      fmt::join(flags_of(program), " "));
}

/// Text within single quotes.
std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4)
    text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string fish_script(const CLI::App& program) {
  const std::string& name = program.get_name();
  std::string script;
  for (const CLI::App* const command : commands_of(program)) {
    script += fmt::format("complete -c {} -n __fish_use_subcommand -f -a {} -d {}\n", name,
                          command->get_name(), quoted(command->get_description()));
    for (const CLI::Option* const option : options_of(*command)) {
      if (option->get_positional()) continue;
      script += fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", name,
                            command->get_name());
      for (const std::string& each : option->get_snames()) script += " -s " + each;
      for (const std::string& each : option->get_lnames()) script += " -l " + each;
      script += fmt::format("{} -d {}\n", value_of(*option).empty() ? "" : " -r",
                            quoted(option->get_description()));
    }
  }
  return script;
}

}  // namespace

std::string completion_for(const CLI::App& program, Shell shell) {
  if (shell == Shell::fish) return fish_script(program);
  const std::string script = bash_script(program);
  if (shell == Shell::bash) return script;
  return fmt::format("#compdef {}\nautoload -U +X bashcompinit && bashcompinit\n{}",
                     program.get_name(), script);
}

}  // namespace capstan::cli
