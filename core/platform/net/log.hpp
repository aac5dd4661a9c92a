// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

namespace capstan {

/// The library's log, which goes to standard error: standard output is the program's. The
/// environment's CAPSTAN_LOG says which lines are written: those of its level and above, warnings
/// where it is not set. Thread-safe.
class Log {
 public:
  enum class Level { debug, info, warn, error, critical };

  template <class... T>
  void debug(fmt::format_string<T...> text, T&&... values) {
    write(Level::debug, text, fmt::make_format_args(values...));
  }
  template <class... T>
  void info(fmt::format_string<T...> text, T&&... values) {
    write(Level::info, text, fmt::make_format_args(values...));
  }
  template <class... T>
  void warn(fmt::format_string<T...> text, T&&... values) {
    write(Level::warn, text, fmt::make_format_args(values...));
  }
  template <class... T>
  void error(fmt::format_string<T...> text, T&&... values) {
    write(Level::error, text, fmt::make_format_args(values...));
  }
  template <class... T>
  void critical(fmt::format_string<T...> text, T&&... values) {
    write(Level::critical, text, fmt::make_format_args(values...));
  }

  /// Whether lines of this level are written: for texts that take time to make.
  bool shows(Level level) const;
  /// Writes nothing from now on.
  void silence();

 private:
  void write(Level level, fmt::string_view text, fmt::format_args values);
};

/// Never destroyed, so that threads may log until the process ends.
Log& log();

}  // namespace capstan
