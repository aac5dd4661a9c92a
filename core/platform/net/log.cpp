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

namespace capstan {
namespace {

/// The length of the character at the begin of the text; 0 if it is none that may be shown.
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xc2 && byte(1) < 0xa0) return 0;                      // control characters again
  if (first == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xa8) return 0;  // separators, directions
  return length;
}

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
    if (logger().should_log(as)) logger().log(as, std::string_view{fmt::vformat(text, values)});
  } catch (const std::exception&) {  // no memory: what has happened matters more than its line
  }
}

std::string printable(std::string_view text, std::size_t most) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    const std::string next =
        length > 0 ? std::string{text.substr(0, length)}
                   : fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    if (shown.size() + next.size() > most) return shown + "...";
    shown += next;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  while (true) {
    const std::string_view line = text.substr(0, text.find('\n'));
    shown += printable(line, std::string::npos);
    if (line.size() == text.size()) return shown;
    shown += '\n';
    text.remove_prefix(line.size() + 1);
  }
}

}  // namespace capstan
