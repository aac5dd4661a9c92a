// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/help/man_page.hpp"

#include <fmt/format.h>

#include "core/tools/cli/help/options_of.hpp"

namespace capstan::cli {
namespace {

/// Text that roff leaves as it is.
std::string escaped(std::string_view text) {
  std::string result;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
    begins_line = c == '\n';
  }
  return result;
}

std::string section(std::string_view title, const std::string& text) {
  return text.empty() ? "" : fmt::format(".SH {}\n{}\n", title, text);
}

std::string text_of(const CLI::Option& option) {
  std::string text = fmt::format(".TP\n.B {}", escaped(names_of(option)));
  if (const std::string value = value_of(option); !value.empty())
    text += fmt::format(" \\fI{}\\fR", escaped(value));
  text += "\n" + escaped(option.get_description());
  if (!option.get_default_str().empty())
    text += fmt::format(" (default: {})", escaped(option.get_default_str()));
  return text + "\n";
}

std::string options_text(const CLI::App& app, bool positional) {
  std::string text;
  for (const CLI::Option* const option : options_of(app))
    if (option->get_positional() == positional) text += text_of(*option);
  return text;
}

std::string commands_text(const CLI::App& app) {
  std::string text;
  for (const CLI::App* const command : commands_of(app))
    text += fmt::format(".TP\n.BR {} (1)\n{}\n", escaped(page_name(*command)),
                        escaped(command->get_description()));
  return text;
}

std::string synopsis(const CLI::App& app) {
  std::string text = fmt::format(".B {}\n", escaped(full_name_of(app)));
  if (!commands_of(app).empty()) return text + "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]";
  text += "[\\fIOPTIONS\\fR]";
  for (const CLI::Option* const option : options_of(app))
    if (option->get_positional()) text += fmt::format(" [\\fI{}\\fR]", names_of(*option));
  return text;
}

}  // namespace

std::string man_page(const CLI::App& app) {
  const std::string name = page_name(app);
  std::string text =
      fmt::format(".TH {} 1 \"\" \"Capstan {}\" \"Capstan\"\n", escaped(name), CAPSTAN_VERSION);
  text += section("NAME", fmt::format("{} \\- {}", escaped(name), escaped(app.get_description())));
  text += section("SYNOPSIS", synopsis(app));
  text += section("COMMANDS", commands_text(app));
  text += section("ARGUMENTS", options_text(app, true));
  text += section("OPTIONS", options_text(app, false));
  if (const std::string footer = app.get_footer(); !footer.empty())
    text += section("NOTES", ".nf\n" + escaped(footer) + "\n.fi");
  return text;
}

}  // namespace capstan::cli
