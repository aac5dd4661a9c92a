// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "capstan/error.hpp"
#include "core/communicator/setting_table.hpp"
#include "core/communicator/variables.hpp"
#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/options.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/report.hpp"

namespace capstan::cli {
namespace {

struct Line {
  std::string variable{}, value{}, usual{}, source{}, error{};
  std::string_view summary{};
};

std::string shown(const std::string& text) {
  return text.empty() ? "-" : text;
}

Line line_of(const Setting& setting) {
  Line line{.variable = setting.variable(), .summary = setting.summary};
  const Settings usual;
  line.usual = line.value = shown(setting.text(usual));
  const char* const given = std::getenv(line.variable.c_str());
  const bool is_given = given && *given;
  line.source = is_given ? "environment" : "default";
  if (!is_given) return line;
  line.value = given;
  try {
    Settings own;
    setting.read(own, line.variable, given);
    line.value = setting.is_secret() ? "(not shown)" : setting.text(own);
  } catch (const InvalidArgument& error) {
    line.error = error.what();
  }
  return line;
}

Line line_of(const OtherVariable& other) {
  const char* const given = std::getenv(std::string{other.name}.c_str());
  const bool is_given = given && *given, is_secret = other.name.ends_with("SECRET");
  return {.variable = std::string{other.name},
          .value = !is_given   ? "-"
                   : is_secret ? "(not shown)"
                               : given,
          .usual = "-",
          .source = is_given ? "environment" : "default",
          .summary = other.summary};
}

std::size_t longest_summary(const std::vector<Line>& lines) {
  std::size_t most = 0;
  for (const Line& line : lines) most = std::max(most, line.summary.size());
  return most;
}

/// A setting in one line, or where that is too narrow for some, in three.
void print(const std::vector<Line>& lines) {
  const auto width = [&](auto member) {
    std::size_t most = 0;
    for (const Line& line : lines) most = std::max(most, (line.*member).size());
    return std::min<std::size_t>(most, 40);
  };
  const std::size_t names = width(&Line::variable), values = width(&Line::value),
                    usual = std::max<std::size_t>(width(&Line::usual), 7),
                    longest = longest_summary(lines);
  const auto print_row = [&](const auto& name, const auto& value, const auto& otherwise,
                             const auto& source, const auto& summary) {
    const std::string row = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:<11}", name, names, value,
                                        values, otherwise, usual, source);
    const bool fits = static_cast<int>(row.size() + 2 + longest) <= perf::line_width();
    fits
        ? perf::print_folded("{}  {}\n", row, summary)
        : perf::print_folded("{}\n  {}\n  {}\n", name,
                             fmt::format("{} (default {}; {})", value, otherwise, source), summary);
  };
  print_row("setting", "value", "default", "source", "what it is");
  for (const Line& line : lines) {
    print_row(line.variable, line.value, line.usual, line.source, line.summary);
    if (!line.error.empty()) perf::print_folded("  error: {}\n", line.error);
  }
  for (const auto& [name, near] : unknown_variables())
    perf::print_folded("warning: {} has no effect{}\n", name,
                       near.empty() ? "" : fmt::format(": did you mean {}?", near));
}

nlohmann::json to_json(const std::vector<Line>& lines) {
  nlohmann::json settings = nlohmann::json::array(), unknown = nlohmann::json::array();
  for (const Line& line : lines) {
    settings.push_back({{"variable", line.variable},
                        {"value", line.value},
                        {"default", line.usual},
                        {"source", line.source},
                        {"summary", line.summary}});
    if (!line.error.empty()) settings.back()["error"] = line.error;
  }
  for (const auto& [name, near] : unknown_variables())
    unknown.push_back({{"variable", name}, {"nearest", near}});
  return {{"settings", settings}, {"unknown", unknown}};
}

int run(const std::string& json, bool set_only) {
  perf::check_writable(json);
  std::vector<Line> lines;
  for (const Setting& setting : setting_table()) lines.push_back(line_of(setting));
  for (const OtherVariable& other : other_variables()) lines.push_back(line_of(other));
  if (set_only) std::erase_if(lines, [](const Line& line) { return line.source == "default"; });
  if (prints_text(json)) print(lines);
  write_json(json, to_json(lines));
  return std::ranges::all_of(lines, [](const Line& line) { return line.error.empty(); }) ? 0 : 1;
}

}  // namespace

void add_settings_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "settings", "Print every setting: its value here, its default, and where it comes from");
  const auto json = std::make_shared<std::string>();
  const auto set_only = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->add_flag("--set", *set_only, "Print those alone that the environment sets");
  command->footer(
      "Ends with status 1 if a value cannot be read. Variables that begin with CAPSTAN_ and that\n"
      "nothing reads are warned of.\n\n"
      "Examples:\n  capstan settings\n  mpirun -n 1 capstan settings --set    what ranks get");
  command->callback([json, set_only, &status] { status = run(*json, *set_only); });
}

}  // namespace capstan::cli
