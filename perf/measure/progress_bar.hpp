// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/platform/net/file_descriptor.hpp"
#include "perf/measure/duration_text.hpp"

namespace capstan::perf {

/// Where a command whose ranks are other processes tells them its terminal.
inline constexpr const char* terminal_variable = "CAPSTAN_TERMINAL";

/// A line on the terminal that shows how far a job is and how long it will continue. Without a
/// terminal it shows nothing.
class ProgressBar {
 public:
  /// One of the ranks of a job shows it.
  explicit ProgressBar(std::size_t steps, bool shows = true) : steps_(steps) {
    if (!shows || steps == 0) return;
    if (::isatty(STDERR_FILENO) != 0)
      terminal_ = FileDescriptor{::dup(STDERR_FILENO)};
    else if (const char* const path = std::getenv(terminal_variable))
      terminal_ = FileDescriptor{::open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC)};
  }

  void show(const std::string& what) const {
    constexpr std::size_t width = 30;
    if (!terminal_.valid()) return;
    const std::size_t full = width * done_ / steps_;
    write(fmt::format("\r\033[K[{}{}] {}/{}{}  {}\r", std::string(full, '#'),
                      std::string(width - full, '.'), done_, steps_, left(), what));
  }
  void step() {
    ++done_;
    clear();
  }
  void clear() const { write("\033[K"); }
  /// A step that ends with the block.
  struct Step {
    ProgressBar& bar;
    ~Step() { bar.step(); }
  };

 private:
  using Clock = std::chrono::steady_clock;

  /// A terminal that has gone away is missed by nobody.
  void write(std::string_view text) const {
    if (terminal_.valid()) static_cast<void>(!::write(terminal_.get(), text.data(), text.size()));
  }

  std::string left() const {
    if (done_ == 0) return "";
    const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
    return fmt::format(", {} left", duration_text(elapsed / static_cast<double>(done_) *
                                                  static_cast<double>(steps_ - done_)));
  }

  const std::size_t steps_;
  FileDescriptor terminal_;
  std::size_t done_ = 0;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace capstan::perf
