// SPDX-License-Identifier: Apache-2.0

// The bell by which a simulated network wakes a thread.

#include <gtest/gtest.h>
#include <poll.h>

#include "transports/loopback/bell.hpp"

namespace capstan::loopback {
namespace {

bool is_readable(const Bell& bell) {
  pollfd entry{bell.descriptor(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(Bell, IsHeardFromPrepareToTheEndOfTheSleep) {
  Bell bell;
  bell.ring();
  EXPECT_FALSE(is_readable(bell)) << "nobody is about to sleep";
  for (const bool sleeps : {true, false}) {
    bell.prepare();
    EXPECT_FALSE(is_readable(bell));
    bell.ring();
    EXPECT_TRUE(is_readable(bell));
    sleeps ? bell.sleep(std::chrono::minutes{1}) : bell.cancel();
    EXPECT_FALSE(is_readable(bell));
    bell.ring();
    EXPECT_FALSE(is_readable(bell)) << "the sleep is over";
  }
}

}  // namespace
}  // namespace capstan::loopback
