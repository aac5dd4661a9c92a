// SPDX-License-Identifier: Apache-2.0

// Handles of operations: queues of them, events when they end, and what is computed meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "capstan/async/events.hpp"
#include "capstan/async/operation_queue.hpp"
#include "capstan/async/overlap.hpp"
#include "tests/ranks/handles_helpers.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;

/// Four threads of each rank use one queue: two fill it, by groups of their own, one waits for any,
/// one polls and clears. QUEUE_TEST_SECONDS makes it last longer.
TEST(Requirement, A15_OneQueueIsUsedByManyThreads) {
  const char* const seconds = std::getenv("QUEUE_TEST_SECONDS");
  const auto rounds = seconds ? 1'000'000 : 100;
  const Deadline end =
      seconds ? Deadline::in(std::chrono::seconds{std::atoi(seconds)}) : Deadline::never();
  on_threads(2, bounded_settings(), [&](Communicator& world) {
    auto first = world.split(0), second = world.split(0);
    OperationQueue queue;
    std::atomic<int> filling = 2;
    std::atomic<std::uint64_t> sum = 0;
    const auto fill = [&](Communicator& group) {
      for (int round = 0; round < rounds; ++round) {
        auto data = std::make_shared<std::vector<int>>(1 + round % 3000, 1);
        const Work work = group.start_all_reduce(*data);
        work.on_complete([data, &sum](const Work&) { sum += static_cast<unsigned>(data->back()); });
        queue.enqueue(work);
        int go_on = end.expired() ? 0 : 1;  // all ranks end alike
        if (round % 10 == 9) group.all_reduce(std::span{&go_on, 1}, ReduceOp::min);
        if (round % 10 == 9 && go_on == 0) break;
      }
      --filling;
    };
    {
      std::jthread a{[&] { fill(*first); }}, b{[&] { fill(*second); }};
      std::jthread waits{[&] {
        while (filling > 0)
          if (queue.size() > 0) try {
              (void)queue.wait_for_any(1ms);
            } catch (const InvalidArgument&) {  // it was cleared meanwhile
            }
      }};
      std::jthread polls{[&] {
        while (filling > 0) {
          queue.clear_completed();
          std::this_thread::yield();
        }
      }};
    }
    queue.wait_for_all();
    queue.clear_completed();
    EXPECT_EQ(queue.size(), 0U);
    EXPECT_EQ(sum % 2, 0U);
    if (!seconds) {
      EXPECT_EQ(sum, 400U);
    }
  });
}

/// Default settings, and a computation that calls nothing: the helper starts the thread.
TEST(Requirement, A37_TheHelpersOverlapByThemselves) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "ranks would share a core";
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> data(100'000, 1);
    Work work;
    const bool ended =
        compute_while_communicating([&] { return work = world.start_all_reduce(data); },
                                    [&] { return comes_true([&] { return work.has_ended(); }); });
    EXPECT_TRUE(ended);
    EXPECT_THAT(data, Each(2));
  });
}

TEST(Requirement, A38_PipelinesCollectWhatWasComputedAndWhatWasReduced) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<std::vector<int>> items{{1}, {2}, {3}};
    const auto start = [&](auto& item) { return world.start_all_reduce(item); };
    const auto seeds = pipeline_communicate_compute(
        items, start, [&](auto& item) { return &item - items.data(); });
    EXPECT_THAT(seeds.computed, ElementsAre(0, 1, 2));
    EXPECT_THAT(seeds.works[2].result<int>(), ElementsAre(6));
    const auto other =
        pipeline_compute_communicate(items, [](auto& item) { return item.front() += 1; }, start);
    EXPECT_THAT(other.computed, ElementsAre(3, 5, 7));
    EXPECT_THAT(other.works[0].result<int>(), ElementsAre(6));
    EXPECT_EQ(pipeline_communicate_compute(items, start, [](auto&) {}).size(), 3U);
    EXPECT_THROW(pipeline_communicate_compute(
                     items, start, [](auto&) { throw std::runtime_error("computation"); }),
                 std::runtime_error);
    world.barrier();
  });
}

TEST(Requirement, A41_ErrorsReachTheirHandlers) {
  OperationEvents events;
  std::atomic<int> failed = 0, cancelled = 0, completed = 0;
  events.on_complete([&](const Work&) { ++completed; });
  events.on_error([&](const Work& work, const std::exception_ptr& error) {
    EXPECT_EQ(work.describe(), "a switch");
    try {
      std::rethrow_exception(error);
    } catch (const Cancelled&) {
      ++cancelled;
    } catch (const std::runtime_error&) {
      ++failed;
    }
  });
  const auto breaks = std::make_shared<Switch>(), never = std::make_shared<Switch>();
  breaks->fails = true;
  (void)events.start(1, [&] { return work_of(breaks); });
  const Work pending = events.start(1, [&] { return work_of(never); });
  EXPECT_TRUE(pending.cancel());
  EXPECT_TRUE(comes_true([&] { return failed == 1 && cancelled == 1; }));
  EXPECT_EQ(completed, 0);
}

TEST(Requirement, A45_ASubscriptionToEventsCanBeEnded) {
  const auto on = std::make_shared<Switch>();
  on->on = true;
  OperationEvents events;
  std::atomic<int> all = 0, own = 0, once = 0;
  const auto every = events.on_complete([&](const Work&) { ++all; });
  const auto fives = events.on_complete(5, [&](const Work&) { ++own; });
  OperationEvents::Subscription single{};
  single = events.on_complete([&](const Work&) {
    ++once;
    EXPECT_TRUE(events.end(single));  // a handler ends itself
  });
  const auto run = [&] {
    std::atomic<bool> ended = false;
    (void)events.start(5, [&] { return work_of(on); }, [](const Work&) {});
    events.start(6, [&] { return work_of(on); }, [&](const Work&) { ended = true; }).wait();
    return comes_true([&] { return ended.load(); });
  };
  EXPECT_TRUE(run());
  EXPECT_TRUE(comes_true([&] { return all == 2 && own == 1 && once == 1; }));
  EXPECT_TRUE(events.end(fives));
  EXPECT_TRUE(events.end(every));
  EXPECT_FALSE(events.end(every));
  EXPECT_TRUE(run());
  EXPECT_EQ(all, 2);
  EXPECT_EQ(own, 1);
  EXPECT_EQ(once, 1);
  EXPECT_THROW(events.on_complete(nullptr), InvalidArgument);
}

/// The end of a subscription waits for its handler.
TEST(Requirement, A45_AnEndedHandlerRunsNoMore) {
  const auto on = std::make_shared<Switch>();
  on->on = true;
  OperationEvents events;
  std::atomic<bool> inside = false, left = false;
  const auto subscription = events.on_complete([&](const Work&) {
    inside = true;
    std::this_thread::sleep_for(20ms);
    left = true;
  });
  (void)events.start(1, [&] { return work_of(on); });
  EXPECT_TRUE(comes_true([&] { return inside.load(); }));
  EXPECT_TRUE(events.end(subscription));
  EXPECT_TRUE(left);
}

}  // namespace
}  // namespace capstan
