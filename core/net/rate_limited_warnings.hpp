#pragma once

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <string>
#include <string_view>

namespace capstan {

/// Warnings about strangers, but not so often that these could fill the log: the first few at once,
/// then one in ten seconds. Not thread-safe.
class RateLimitedWarnings {
 public:
  /// Each warning is "<about> <who>: <what>".
  explicit RateLimitedWarnings(std::string about) : about_(std::move(about)) {}

  void warn(std::string_view who, std::string_view what) {
    using namespace std::chrono_literals;
    const auto now = std::chrono::steady_clock::now();
    if (said_ >= at_once && now < last_ + 10s) {
      ++unsaid_;
      return;
    }
    const std::string more = unsaid_ > 0 ? fmt::format(" ({} more in between)", unsaid_) : "";
    spdlog::warn("{} {}: {}{}", about_, who, what, more);
    ++said_;
    unsaid_ = 0;
    last_ = now;
  }

 private:
  static constexpr int at_once = 20;

  std::string about_;
  int said_ = 0;
  int unsaid_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace capstan
