// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/sleeper.hpp"

#include "core/platform/net/wait_readable.hpp"

namespace capstan::ofi {

Sleeper::Sleeper(int watched) {
  if (watched >= 0) events_.add(watched, {}, Poller::input);
}

void Sleeper::sleep(std::chrono::nanoseconds at_most) {
  if (at_most.count() > 0) wait_readable({events_.descriptor()}, at_most);
}

}  // namespace capstan::ofi
