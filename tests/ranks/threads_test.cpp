// SPDX-License-Identifier: Apache-2.0

// Threads of one rank, without a progress thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;

/// Runs `body(communicator)` on a thread per communicator, all at once.
template <class Body>
void at_once(std::vector<Communicator>& communicators, Body body) {
  std::latch start{static_cast<std::ptrdiff_t>(communicators.size())};
  std::vector<std::jthread> threads;
  for (Communicator& communicator : communicators)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      try {
        body(communicator);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
}

TEST(Threads, GroupsOfOneRankAreUsedAtOnce) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<Communicator> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(std::move(*world.split(0)));
    at_once(groups, [](Communicator& group) {
      std::vector<int> small(4), large(3000), received(100);
      for (int i = 0; i < 200; ++i) {
        std::ranges::fill(small, i);
        std::ranges::fill(large, i + group.rank());
        group.all_reduce(small);
        const Work work = group.start_all_reduce(large);
        const Work message = group.start_receive(received, 1 - group.rank());
        group.send(small, 1 - group.rank());
        work.wait();
        message.wait();
        ASSERT_THAT(small, Each(2 * i));
        ASSERT_THAT(large, Each(2 * i + 1));
        ASSERT_EQ(received.front(), 2 * i);
      }
    });
  });
}

/// One communicator, used by several threads: ranks need not agree on which thread's call is which,
/// as all are alike.
TEST(Threads, CallsOfOneCommunicatorRunOneAfterAnother) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    constexpr int threads = 3, calls = 300;
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back([&] {
        try {
          std::vector<float> data(4);
          for (int call = 0; call < calls; ++call) {
            std::ranges::fill(data, 1);
            world.all_reduce(data);
            ASSERT_THAT(data, Each(2.0f));
          }
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      });
  });
}

TEST(Threads, OneWaitsForWhatAnotherHasStarted) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<double> first(20'000, 1), second(20'000, 2);
    const Work one = world.start_all_reduce(first), two = world.start_all_reduce(second);
    {
      const std::jthread other{[&] { two.wait(); }};
      one.wait();
    }
    EXPECT_THAT(first, Each(2.0));
    EXPECT_THAT(second, Each(4.0));
  });
}

}  // namespace
}  // namespace capstan
