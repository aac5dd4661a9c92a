// SPDX-License-Identifier: Apache-2.0

// Operations that were cancelled: peers get what they expect.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <latch>
#include <random>

#include "tests/ranks/progress_ways.hpp"

namespace capstan {
namespace {

using ::testing::Each;

class CancelledOperation : public ProgressWays {};

INSTANTIATE_TEST_SUITE_P(Progress, CancelledOperation, ::testing::Bool(), ProgressWays::name);

TEST_P(CancelledOperation, DisturbsNobody) {
  on_threads(3, settings(), [](Communicator& world) {
    std::mt19937 random{7};
    std::vector<std::pair<std::vector<int>, int>> kept;
    for (int round = 0; round < 80; ++round) {
      const std::size_t count = 1 + random() % 20000;
      const auto patience = std::chrono::microseconds{random() % 200};
      const bool in_place = random() % 2 == 0;
      std::vector<int> input(count), output(count, -1);
      for (std::size_t i = 0; i < count; ++i)
        input[i] = world.rank() * 1000 + static_cast<int>(i % 777);
      auto& result = in_place ? input : output;
      Work work = in_place ? world.start_all_reduce(input) : world.start_all_reduce(input, output);
      if (world.rank() != 0) {
        work.wait();
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(result[i], 3000 + 3 * static_cast<int>(i % 777)) << "round " << round;
        continue;
      }
      bool cancelled = false;
      if (!work.wait_for(patience)) cancelled = work.cancel();
      if (!cancelled) continue;
      EXPECT_TRUE(work.is_cancelled());
      EXPECT_THROW(work.wait(), Cancelled);
      std::ranges::fill(input, 42);
      std::ranges::fill(output, 43);
      // Held until all ranks have ended the call: a late write would show.
      kept.emplace_back(std::move(input), 42);
      kept.emplace_back(std::move(output), 43);
      for (const auto& [memory, value] : kept)
        ASSERT_EQ(std::ranges::count(memory, value), std::ssize(memory));
      if (kept.size() > 20) kept.erase(kept.begin(), kept.begin() + 10);
    }
    std::vector<int> last{world.rank()};
    world.all_reduce(last);
    EXPECT_EQ(last.front(), 3);
  });
}

/// The private copy of one call's input is not used for the next call.
TEST_P(CancelledOperation, ForgetsTheInputOfTheCallBefore) {
  Settings small_blocks = settings();
  small_blocks.algorithm = "all_to_all:direct/read_input;all_reduce:direct/staged";
  small_blocks.chunk = Bytes{4096};
  std::atomic<bool> overwritten = false;
  on_threads(2, small_blocks, [&](Communicator& world) {
    std::vector<int> exchanged(1000, world.rank());
    world.all_to_all(exchanged);
    std::vector<int> input(20'000, 1 + world.rank()), output(input.size());
    if (world.rank() == 0) {
      Work work = world.start_all_reduce(input, output);
      EXPECT_FALSE(work.wait_for(std::chrono::milliseconds{1}));
      EXPECT_TRUE(work.cancel());
      std::ranges::fill(input, 42);
      overwritten = true;
    } else {
      while (!overwritten) std::this_thread::yield();
      world.all_reduce(input, output);
      EXPECT_THAT(output, Each(3));
    }
    world.barrier();
  });
}

TEST_P(CancelledOperation, BeforeItsTurn) {
  std::latch queued{1};
  on_threads(2, settings(), [&](Communicator& world) {
    std::vector<int> first(5000, 1), second(5000, world.rank() + 1), third(10, 1);
    if (world.rank() == 1) queued.wait();
    Work a = world.start_all_reduce(first), b = world.start_all_reduce(second),
         c = world.start_all_reduce(third);
    if (world.rank() == 0) {
      EXPECT_TRUE(b.cancel());
      std::ranges::fill(second, -7);
      queued.count_down();
    }
    a.wait();
    c.wait();
    EXPECT_THAT(first, Each(2));
    EXPECT_THAT(third, Each(2));
    if (world.rank() == 1) b.wait();
    EXPECT_THAT(second, Each(world.rank() == 1 ? 3 : -7));
  });
}

/// A member cancels, and is gone before the others have ended the call.
TEST_P(CancelledOperation, EndsForTheOthersAfterItsCommunicator) {
  for (const int ranks : {2, 3, 4})
    for (const std::size_t count : {1, 1000, 50'000})
      for (int leaver = 0; leaver < ranks; ++leaver) {
        auto world = Communicator::local_world(ranks, settings());
        std::barrier started{ranks};
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank)
          threads.emplace_back([&, own = std::move(world[static_cast<std::size_t>(rank)]),
                                rank]() mutable {
            std::vector<int> data(count, 1), all(count * static_cast<std::size_t>(ranks));
            Communicator mine = std::move(own);
            const Work sum = mine.start_all_reduce(data), list = mine.start_all_gather(data, all);
            started.arrive_and_wait();
            if (rank == leaver) {
              for (const Work& work : {sum, list}) work.withdraw();
              return;
            }
            EXPECT_NO_THROW(sum.wait()) << ranks << " ranks, " << count << ", " << leaver;
            EXPECT_NO_THROW(list.wait()) << ranks << " ranks, " << count << ", " << leaver;
            EXPECT_THAT(data, Each(ranks));
          });
      }
}

}  // namespace
}  // namespace capstan
