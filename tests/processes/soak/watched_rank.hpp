// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::soak {

using Clock = std::chrono::steady_clock;

/// A rank's process, seen from outside. Ends it when destroyed.
class WatchedRank {
 public:
  struct Line {
    std::string text;
    Clock::time_point when;
  };

  /// Runs `command` with `environment` added to this process's. Throws std::runtime_error.
  WatchedRank(const std::vector<std::string>& command,
              const std::vector<std::pair<std::string, std::string>>& environment);
  WatchedRank(WatchedRank&& other) noexcept;
  WatchedRank& operator=(WatchedRank&&) = delete;
  ~WatchedRank();

  /// Takes in what it has said and what has become of it.
  void look();

  const std::vector<Line>& lines() const { return lines_; }
  /// The first line that begins so.
  const Line* said(std::string_view beginning) const;
  /// When it was seen to be stopped by a signal.
  std::optional<Clock::time_point> stopped() const { return stopped_; }
  /// When it was seen to have ended, and how: its exit status, or 128 + signal.
  std::optional<Clock::time_point> ended() const { return ended_; }
  int status() const { return status_; }
  pid_t pid() const { return pid_; }
  void send(int signal) const;

 private:
  void read_lines();
  void look_at_state();

  pid_t pid_ = -1;
  FileDescriptor output_;
  std::string partial_;
  std::vector<Line> lines_;
  std::optional<Clock::time_point> stopped_, ended_;
  int status_ = -1;
};

}  // namespace capstan::soak
