// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/help/folded_help.hpp"

#include <algorithm>
#include <utility>

#include "perf/measure/folded.hpp"

namespace capstan::cli {
namespace {

using perf::folded;

int help_width() {
  constexpr int widest = 80;
  return std::min(widest, perf::line_width());
}

/// "  name                    description", or the description below a long name.
std::string entry(const std::string& name, const std::string& description) {
  constexpr std::size_t column = 26;
  std::string line = "  " + name;
  std::string text;
  if (line.size() + 2 > column) text = std::exchange(line, "") + "\n";
  line.resize(column, ' ');
  return folded(text + line + description + "\n", help_width());
}

/// The names that CLI11 lists behind the type, as words: "one of f32, f64".
std::string limits_of(const std::string& type) {
  const std::size_t begin = type.find('{'), end = type.rfind('}');
  if (begin == type.npos || end == type.npos) return "";
  std::string names = type.substr(begin + 1, end - begin - 1);
  for (std::size_t at = 0; (at = names.find(',', at)) != names.npos; at += 2)
    names.insert(at + 1, " ");
  return " One of: " + names + ".";
}

/// Whether a line is part of a paragraph, rather than of an example or a list.
bool is_prose(std::string_view line) {
  return !line.empty() && line.front() != ' ' && line.find("  ") == line.npos && line.back() != ':';
}

/// Joins the lines of each paragraph.
std::string unfolded(std::string_view text) {
  std::string all;
  bool joins = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const bool prose = is_prose(line);
    if (!all.empty()) all += joins && prose ? ' ' : '\n';
    all += line;
    joins = prose;
  }
  return all + "\n";
}

}  // namespace

std::string FoldedHelp::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string type = option->get_type_name();
  std::string name = make_option_name(option, is_positional);
  name.resize(std::min(name.find('{'), name.size()));  // the value of a flag that switches off
  if (!is_positional && option->get_type_size() != 0)
    name += " " + type.substr(0, type.find_first_of(":{"));
  std::string description = option->get_description() + limits_of(type);
  for (const CLI::Option* other : option->get_excludes())
    description += fmt::format(" Not with {}.", other->get_name());
  if (!option->get_default_str().empty())
    description += fmt::format(" [{}]", option->get_default_str());
  return entry(name, description);
}

std::string FoldedHelp::make_subcommand(const CLI::App* command) const {
  return entry(command->get_display_name(true), command->get_description());
}

std::string FoldedHelp::make_description(const CLI::App* app) const {
  return folded(CLI::Formatter::make_description(app), help_width());
}

std::string FoldedHelp::make_usage(const CLI::App* app, std::string name) const {
  return folded(CLI::Formatter::make_usage(app, std::move(name)), help_width());
}

std::string FoldedHelp::make_footer(const CLI::App* app) const {
  const std::string footer = app->get_footer();
  return footer.empty() ? "" : folded(unfolded(footer), help_width());
}

}  // namespace capstan::cli
