// SPDX-License-Identifier: Apache-2.0
#include "perf/report/origin.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
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

Facts origin(const std::vector<std::string>& arguments) {
  utsname system{};
  ::uname(&system);
  std::string command = "capstan";
  for (const std::string& argument : arguments) command.append(" ").append(quoted(argument));
  return {{"machine", machine_text()},
          {"host", fmt::format("{}, {} {}", system.nodename, system.sysname, system.release)},
          {"Capstan", fmt::format("{}, {} build", version(), CAPSTAN_BUILD_TYPE)},
          {"command", command},
          {"date", now()}};
}

}  // namespace capstan::report
