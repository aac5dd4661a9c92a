// SPDX-License-Identifier: Apache-2.0
#include "perf/report/origin.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>

#include "capstan/version.hpp"
#include "topology/machine.hpp"

namespace capstan::report {
namespace {

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

std::string machine_text() {
  const Machine machine = Machine::discover();
  std::size_t threads = 0;  // of all cores: this process may be bound to some
  for (const Core& core : machine.every_core()) threads += core.processing_units.size();
  return fmt::format("{}; cores: {}, hardware threads: {}",
                     machine.name().empty() ? "unknown processor" : machine.name(),
                     machine.every_core().size(), threads);
}

/// "0.12 0.40 0.38": the load averages of 1, 5 and 15 minutes.
std::string load_text() {
  double averages[3]{};
  const int known = ::getloadavg(averages, 3);
  if (known < 3) return "unknown";
  return fmt::format("{:.2f} {:.2f} {:.2f}", averages[0], averages[1], averages[2]);
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"-_./:,=+@%^"}.find(c) != std::string_view::npos;
}

}  // namespace

std::string quoted(const std::string& argument) {
  if (!argument.empty() && std::ranges::all_of(argument, is_plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? "'\\''" : std::string{c};
  return text + "'";
}

std::string command_text(const std::vector<std::string>& arguments) {
  std::string command = "capstan";
  for (const std::string& argument : arguments) command.append(" ").append(quoted(argument));
  return command;
}

Facts origin(const std::vector<std::string>& arguments, std::string_view commit) {
  utsname system{};
  ::uname(&system);
  const std::string built =
      commit.empty() ? std::string{version()} : fmt::format("{} ({})", version(), commit);
  return {{"machine", machine_text()},
          {"host", fmt::format("{}, {} {}", system.nodename, system.sysname, system.release)},
          {"Capstan", fmt::format("{}, {} build", built, CAPSTAN_BUILD_TYPE)},
          {"command", command_text(arguments)},
          {"date", now()},
          {"load", load_text()}};
}

nlohmann::json to_json(const Facts& facts) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, value] : facts) {
    std::string small = name;
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
    object[small] = value;
  }
  return object;
}

}  // namespace capstan::report
