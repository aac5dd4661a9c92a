// SPDX-License-Identifier: Apache-2.0

// Callbacks of operations that have ended.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <latch>

#include "tests/ranks/progress_ways.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;

class Callbacks : public ProgressWays {};

INSTANTIATE_TEST_SUITE_P(Progress, Callbacks, ::testing::Bool(), ProgressWays::name);

TEST_P(Callbacks, MayStartOperationsAndWait) {
  on_threads(3, settings(), [](Communicator& world) {
    std::vector<int> first(100, 1), second(2000, 2);
    std::atomic<int> called = 0;
    Work work = world.start_all_reduce(first);
    work.on_complete([&](const Work& ended) {
      EXPECT_TRUE(ended.is_completed());
      world.start_all_reduce(second).wait();
      ++called;
    });
    work.wait();
    // On the progress thread the callback may still be under way.
    while (called == 0) std::this_thread::yield();
    EXPECT_THAT(second, Each(6));
    work.on_complete([&](const Work&) { ++called; });
    EXPECT_EQ(called, 2);
  });
}

/// A future moves nothing on, so a thread has to that runs no callback, at every depth.
TEST_P(Callbacks, MayWaitForFutures) {
  on_threads(2, settings(), [](Communicator& world) {
    for (const bool by_future : {false, true}) {
      std::vector<std::vector<int>> data(5, std::vector<int>(3000, 1));
      std::promise<void> innermost;
      std::function<void(std::size_t)> call = [&](std::size_t depth) {
        if (depth + 1 == data.size()) return innermost.set_value();
        const Work work = world.start_all_reduce(data[depth + 1]);
        work.on_complete([&, depth](const Work&) { call(depth + 1); });
        work.future().get();
      };
      const Work first = world.start_all_reduce(data[0]);
      first.on_complete([&](const Work&) { call(0); });
      by_future ? first.future().get() : first.wait();
      ASSERT_EQ(innermost.get_future().wait_for(60s), std::future_status::ready);
      EXPECT_THAT(data, Each(Each(2)));
    }
  });
}

TEST_P(Callbacks, MayWaitForWhatWasStartedBefore) {
  std::latch begun{1};
  on_threads(2, settings(), [&](Communicator& world) {
    std::vector<int> first(3000, 1), second(3000, 1);
    const Work work = world.start_all_reduce(first);
    if (world.rank() == 1) {
      work.wait();
      begun.wait();
      return world.all_reduce(second);
    }
    std::promise<void> called;
    std::future<void> ended = world.start_all_reduce(second).future();
    work.on_complete([&](const Work&) {
      begun.count_down();
      ended.get();
      called.set_value();
    });
    work.wait();
    EXPECT_EQ(called.get_future().wait_for(60s), std::future_status::ready);
    EXPECT_THAT(second, Each(2));
  });
}

TEST_P(Callbacks, TimeLimitsHoldWhileOneWaits) {
  Settings short_time = settings();
  short_time.timeout = 1s;
  std::promise<void> over;
  on_threads(2, short_time, [&](Communicator& world) {
    std::vector<int> data(10, 1), missing(10, 1);
    const Work work = world.start_all_reduce(data);
    if (world.rank() == 1) {
      work.wait();
      EXPECT_EQ(over.get_future().wait_for(60s), std::future_status::ready);
      return;
    }
    std::promise<void> called;
    work.on_complete([&](const Work&) {
      EXPECT_THROW(world.start_all_reduce(missing).future().get(), TimedOut);
      called.set_value();
    });
    work.future().get();
    EXPECT_EQ(called.get_future().wait_for(60s), std::future_status::ready);
    over.set_value();
  });
}

}  // namespace
}  // namespace capstan
