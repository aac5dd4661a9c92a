#pragma once

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <string_view>

#include "capstan/quantity.hpp"

namespace capstan::tcp {

/// Warns of connections that were refused, but not so often that strangers could fill the log:
/// the first few at once, then one in ten seconds.
class Complaints {
 public:
  explicit Complaints(Rank self) : self_(self) {}

  void about(std::string_view from, std::string_view what) {
    using namespace std::chrono_literals;
    const auto now = std::chrono::steady_clock::now();
    if (said_ >= at_once && now < last_ + 10s) {
      ++unsaid_;
      return;
    }
    const std::string more = unsaid_ > 0 ? fmt::format(" ({} more in between)", unsaid_) : "";
    spdlog::warn("rank {}: refused a connection with {}: {}{}", self_.value(), from, what, more);
    ++said_;
    unsaid_ = 0;
    last_ = now;
  }

 private:
  static constexpr int at_once = 20;

  Rank self_;
  int said_ = 0;
  int unsaid_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace capstan::tcp
