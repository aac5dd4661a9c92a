// SPDX-License-Identifier: Apache-2.0

// A mutex that one thread takes cheaply excludes all others, whoever has the bias.

#include "core/engine/run/biased_mutex.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <thread>
#include <vector>

namespace capstan {
namespace {

/// Not atomic: only the mutex protects it.
struct Counter {
  BiasedMutex mutex;
  int value = 0, inside = 0, collisions = 0;

  void count(int times) {
    for (int i = 0; i < times; ++i) {
      auto* const owner = mutex.lock();  // for longer than a move of the bias takes
      if (++inside != 1) ++collisions;
      for (int pause = 0; pause < 2000; ++pause)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      ++value;
      --inside;
      mutex.unlock(owner);
    }
  }
};

TEST(BiasedMutexes, OneThreadKeepsTheBias) {
  Counter counter;
  auto* const first = counter.mutex.lock();
  counter.mutex.unlock(first);
  auto* const second = counter.mutex.lock();
  counter.mutex.unlock(second);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(first, second);
  EXPECT_FALSE(counter.mutex.is_shared());
}

TEST(BiasedMutexes, ThreadsThatTakeTurnsSeeWhatOthersDid) {
  Counter counter;
  for (int turn = 0; turn < 20; ++turn) std::jthread{[&] { counter.count(100); }}.join();
  EXPECT_EQ(counter.value, 2000);
}

/// The bias moves until the mutex is a plain one, and while others are about to enter.
TEST(BiasedMutexes, ThreadsExcludeEachOther) {
  for (int round = 0; round < 50; ++round) {
    constexpr int threads = 3, times = 300;
    Counter counter;
    {
      std::latch start{threads};
      std::vector<std::jthread> running;
      for (int i = 0; i < threads; ++i)
        running.emplace_back([&] {
          start.arrive_and_wait();
          counter.count(times);
        });
    }
    ASSERT_EQ(counter.value, threads * times);
    ASSERT_EQ(counter.collisions, 0);
  }
}

TEST(BiasedMutexes, SharingWaitsForTheOwner) {
  for (int round = 0; round < 50; ++round) {
    Counter counter;
    {
      std::latch start{2};
      const std::jthread owner{[&] {
        start.arrive_and_wait();
        counter.count(500);
      }};
      start.arrive_and_wait();
      counter.mutex.share();
      counter.count(500);
    }
    ASSERT_TRUE(counter.mutex.is_shared());
    ASSERT_EQ(counter.value, 1000);
    ASSERT_EQ(counter.collisions, 0);
  }
}

}  // namespace
}  // namespace capstan
