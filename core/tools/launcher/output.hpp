// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <utility>

namespace capstan::launcher {

/// Writes all bytes, however long that takes. False if nobody reads any more.
bool write_all(int out, std::string_view bytes);

/// One of this process's own streams. What its reader does not take yet waits here, so that a
/// reader that has stopped keeps nobody from signals and time limits.
class Outlet {
 public:
  explicit Outlet(int fd) : fd_(fd) {}
  Outlet(const Outlet&) = delete;

  void add(std::string_view text);
  /// Writes what the reader takes at once.
  void write_some();
  /// Writes all, however long the reader takes.
  void write_rest();
  pollfd watch() const { return {pending_.empty() ? -1 : fd_, POLLOUT, 0}; }
  bool empty() const { return pending_.empty(); }
  /// Whether no more should be added for now.
  bool is_full() const { return pending_.size() > enough; }
  /// Drops the output that waits and all that arrives.
  void give_up();
  /// Why text could not be written, as errno; 0 if all could.
  int error() const { return error_; }

 private:
  static constexpr std::size_t enough = 256 << 10;

  const int fd_;
  std::string pending_;
  int error_ = 0;
  bool given_up_ = false;
};

/// Copies a rank's output to an outlet, line by line, so that lines of different ranks never mix.
class LineForwarder {
 public:
  /// `prefix` goes before each line.
  LineForwarder(std::string prefix, Outlet& out) : prefix_(std::move(prefix)), out_(out) {}

  /// Adds the complete lines; keeps the rest for later. A line of more than 1 MiB is broken.
  void take(std::string_view text);
  /// Adds the rest, with a line end.
  void finish();

 private:
  void add_line(std::string_view line);

  std::string prefix_;
  Outlet& out_;
  std::string partial_;
  std::string ready_;
};

}  // namespace capstan::launcher
