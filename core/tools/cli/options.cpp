// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/options.hpp"

#include <fmt/format.h>

#include <limits>

#include "capstan/error.hpp"
#include "core/tools/cli/numbers.hpp"
#include "perf/measure/report.hpp"

namespace capstan::cli {
namespace {

/// Limits may be for ever; what is measured takes so long, and has to end.
constexpr double no_limit = std::numeric_limits<double>::infinity(), longest_measurement = 1e6;

CLI::Validator seconds(bool zero, double most = no_limit) {
  const auto check = [zero, most](const std::string& text) -> std::string {
    const double value = text == "inf" ? no_limit : number_of<double>(text).value_or(-1);
    const bool enough = zero ? value >= 0 : value > 0;
    if (enough && value <= most) return "";
    return fmt::format("'{}' is not a time in seconds{}{}, such as 60 or 0.5", text,
                       zero ? "" : " above 0",
                       most < no_limit ? fmt::format(", {} at most", most) : "");
  };
  return CLI::Validator{check, "SECONDS"};
}

}  // namespace

CLI::Validator positive_seconds() {
  return seconds(false);
}

CLI::Validator seconds_to_measure() {
  return seconds(false, longest_measurement);
}

CLI::Validator seconds_to_wait() {
  return seconds(true, longest_measurement);
}

CLI::Validator seconds_from_zero() {
  return seconds(true);
}

/// CLI11 calls the value of a flag without one "true".
void add_json_option(CLI::App& command, std::string& file) {
  command
      .add_flag("--json", file,
                "Print JSON instead of text, or write it to a file as well: --json=FILE")
      ->transform(CLI::Validator{[](std::string& value) {
                                   if (value == "true") value = "-";
                                   return std::string{};
                                 },
                                 ""});
}

void write_json(const std::string& json, const nlohmann::json& document) {
  if (!json.empty()) perf::write_document(json, document.dump(2));
}

void refuse_options(const CLI::App& command, std::initializer_list<const char*> names,
                    const std::string& why) {
  for (const char* name : names)
    if (command.count(name) > 0) throw InvalidArgument(fmt::format("{}: {}", name, why));
}

}  // namespace capstan::cli
