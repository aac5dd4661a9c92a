// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/shared_core.hpp"

#include <sched.h>

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::microseconds shortest_absence = 5us, longest_absence = 2ms;
constexpr auto remembered = 50ms;

}  // namespace

bool SharedCore::is_shared(Clock::time_point now) {
  if (shared_ && now > until_.load()) shared_ = false;
  return shared_;
}

void SharedCore::yield(Clock::time_point now) {
  sched_yield();
  const auto away = Clock::now() - now;
  if (away < shortest_absence || away > longest_absence) return;
  until_ = now + remembered;
  shared_ = true;
}

}  // namespace capstan
