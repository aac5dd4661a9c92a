// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/rate_limited_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/printable.hpp"
#include "core/platform/net/log.hpp"

namespace capstan {
namespace {

constexpr int at_once = 5;
constexpr std::chrono::seconds interval{10};
constexpr std::size_t most_causes = 64;  // strangers may think of ever new ones

}  // namespace

bool RateLimit::take(Clock::time_point now) {
  const auto next = std::max(free_at_, now) + interval_;
  if (next > now + at_once_ * interval_) return false;
  free_at_ = next;
  return true;
}

void RateLimitedWarnings::warn(std::string_view who, std::string_view what) {
  if (const auto text = text_at(Clock::now(), who, what)) log().warn("{}", *text);
}

std::optional<std::string> RateLimitedWarnings::text_at(Clock::time_point now, std::string_view who,
                                                        std::string_view what) {
  const std::lock_guard lock{mutex_};
  Cause& cause = cause_of(what);
  cause.last = now;
  if (!cause.limit.take(now) || !all_.take(now)) {
    ++cause.left_out;
    return std::nullopt;
  }
  const auto left_out = std::exchange(cause.left_out, 0);
  const std::string more = left_out > 0 ? fmt::format(" ({} more in between)", left_out) : "";
  return fmt::format("{} {}: {}{}", about_, printable(who), printable(what), more);
}

/// The entry of a cause. A new one replaces, of too many, the one that occurred longest ago.
RateLimitedWarnings::Cause& RateLimitedWarnings::cause_of(std::string_view what) {
  const auto found = causes_.find(what);
  if (found != causes_.end()) return found->second;
  if (causes_.size() >= most_causes)
    causes_.erase(
        std::ranges::min_element(causes_, {}, [](const auto& entry) { return entry.second.last; }));
  return causes_.emplace(what, Cause{RateLimit{at_once, interval}}).first->second;
}

}  // namespace capstan
