// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace capstan {

/// Lets a few events happen at once, and from then on one in each interval.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(int at_once, Clock::duration interval) : at_once_(at_once), interval_(interval) {}

  /// Whether one may happen now. `now` never goes back.
  bool take(Clock::time_point now);

 private:
  int at_once_;
  Clock::duration interval_;
  Clock::time_point free_at_{};  ///< when as many as at the begin may happen again
};

/// Warnings about what others do, but not so often that these could fill the log: of each cause a
/// few at once and then one in ten seconds, and of all causes together forty and one in a second.
/// The next one of a cause says how many have been left out. Texts of others are made printable.
/// Thread-safe.
class RateLimitedWarnings {
 public:
  using Clock = RateLimit::Clock;

  /// Each warning is "<about> <who>: <what>".
  explicit RateLimitedWarnings(std::string about) : about_(std::move(about)) {}

  /// `what` is the cause.
  void warn(std::string_view who, std::string_view what);

  /// The text that warn() would write at this time, if any.
  std::optional<std::string> text_at(Clock::time_point now, std::string_view who,
                                     std::string_view what);

 private:
  struct Cause {
    RateLimit limit;
    std::uint64_t left_out = 0;
    Clock::time_point last{};
  };

  Cause& cause_of(std::string_view what);

  const std::string about_;
  std::mutex mutex_;
  RateLimit all_{40, std::chrono::seconds{1}};
  std::map<std::string, Cause, std::less<>> causes_;
};

}  // namespace capstan
