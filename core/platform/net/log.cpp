// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>

#include "core/base/printable.hpp"

namespace capstan {
namespace {

/// The values of CAPSTAN_LOG, and the level that each means.
constexpr std::pair<std::string_view, spdlog::level::level_enum> level_names[] = {
    {"debug", spdlog::level::debug}, {"info", spdlog::level::info}, {"warn", spdlog::level::warn},
    {"error", spdlog::level::err},   {"off", spdlog::level::off},
};

void set_level(spdlog::logger& logger) {
  const char* const asked = std::getenv("CAPSTAN_LOG");
  const std::string_view name = asked && *asked ? asked : "warn";
  const auto found =
      std::ranges::find(level_names, name, [](const auto& each) { return each.first; });
  logger.set_level(found == std::end(level_names) ? spdlog::level::warn : found->second);
  if (found == std::end(level_names))
    logger.warn("CAPSTAN_LOG='{}': expected debug, info, warn, error or off", printable(name));
}

spdlog::logger& logger() {
  static auto* const logger = [] {
    auto* const made =
        new spdlog::logger("capstan", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    set_level(*made);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum level_of(Log::Level level) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info,
                                                  spdlog::level::warn, spdlog::level::err,
                                                  spdlog::level::critical};
  return levels[static_cast<int>(level)];
}

}  // namespace

Log& log() {
  static constinit Log log;  // has no state: the logger stays
  return log;
}

bool Log::shows(Level level) const {
  return logger().should_log(level_of(level));
}

void Log::silence() {
  logger().set_level(spdlog::level::off);
}

void Log::write(Level level, fmt::string_view text, fmt::format_args values) {
  const auto as = level_of(level);
  try {
    if (logger().should_log(as))
      logger().log(as, std::string_view{printable_lines(fmt::vformat(text, values))});
  } catch (const std::exception&) {  // no memory: what has happened matters more than its line
  }
}

}  // namespace capstan
