// SPDX-License-Identifier: Apache-2.0
#include "transports/loopback/bell.hpp"

#include "core/platform/net/wait_readable.hpp"

namespace capstan::loopback {

void Bell::ring() {
  const std::lock_guard lock{mutex_};
  if (!armed_) return;
  armed_ = false;
  event_.ring();
}

void Bell::prepare() {
  cancel();
  const std::lock_guard lock{mutex_};
  armed_ = true;
}

void Bell::sleep(std::chrono::nanoseconds at_most) {
  wait_readable({event_.descriptor()}, at_most);
  cancel();
}

void Bell::cancel() {
  const std::lock_guard lock{mutex_};
  armed_ = false;
  event_.clear();
}

}  // namespace capstan::loopback
