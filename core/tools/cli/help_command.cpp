// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <memory>

#include "capstan/error.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/help/completion.hpp"
#include "core/tools/cli/help/man_page.hpp"
#include "core/tools/cli/help/options_of.hpp"

namespace capstan::cli {
namespace {

struct HelpCommand {
  std::string command;
  bool man = false;
  std::string shell;
};

const CLI::App& command_named(const CLI::App& program, const std::string& name) {
  if (name.empty()) return program;
  std::string names;
  for (const CLI::App* const command : commands_of(program)) {
    if (command->get_name() == name) return *command;
    names += " " + command->get_name();
  }
  throw InvalidArgument(fmt::format("there is no command '{}'; there are{}", name, names));
}

void run(const CLI::App& program, const HelpCommand& help) {
  const std::map<std::string, Shell> shells{
      {"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}};
  const CLI::App& command = command_named(program, help.command);
  if (!help.shell.empty())
    fmt::print("{}", completion_for(program, shells.at(help.shell)));
  else if (help.man)
    fmt::print("{}", man_page(command));
  else
    fmt::print("{}", command.get_formatter()->make_help(&command, full_name_of(command),
                                                        CLI::AppFormatMode::Normal));
}

}  // namespace

void add_help_command(CLI::App& app) {
  auto* command = app.add_subcommand("help", "Explain a command, also as a manual page");
  const auto options = std::make_shared<HelpCommand>();
  command->add_option("command", options->command, "The command; none: the program");
  auto* man = command->add_flag("--man", options->man, "As a manual page, for man -l -");
  command
      ->add_option("--completion", options->shell,
                   "A script that lets a shell complete commands and options: bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->excludes(man);
  command->footer(
      "Examples:\n"
      "  capstan help perf\n"
      "  capstan help perf --man | man -l -\n"
      "  source <(capstan help --completion bash)");
  command->callback([&app, options] { run(app, *options); });
}

}  // namespace capstan::cli
