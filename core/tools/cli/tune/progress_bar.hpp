// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "core/tools/cli/duration_text.hpp"
#include "core/tools/launcher/complain.hpp"

namespace capstan::cli {

/// A line on the terminal that shows how far a job is and how long it will continue. Without a
/// terminal it shows nothing.
class ProgressBar {
 public:
  ProgressBar(std::size_t steps, bool terminal) : steps_(steps), terminal_(terminal) {}

  void show(const std::string& what) const {
    constexpr std::size_t width = 30;
    if (!terminal_ || steps_ == 0) return;
    const std::size_t full = width * done_ / steps_;
    launcher::complain("\r\033[K[{}{}] {}/{}{}  {}\r", std::string(full, '#'),
                       std::string(width - full, '.'), done_, steps_, left(), what);
    std::fflush(stderr);
  }
  void step() {
    ++done_;
    if (terminal_) launcher::complain("\033[K"), std::fflush(stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string left() const {
    if (done_ == 0) return "";
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    return fmt::format(", {} left", duration_text(elapsed / static_cast<double>(done_) *
                                                  static_cast<double>(steps_ - done_)));
  }

  const std::size_t steps_;
  const bool terminal_;
  std::size_t done_ = 0;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace capstan::cli
