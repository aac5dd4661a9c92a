// SPDX-License-Identifier: Apache-2.0

// Handles of operations: limits of time, and stops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>

#include "capstan/async/execute.hpp"
#include "capstan/async/operation_queue.hpp"
#include "capstan/async/within.hpp"
#include "tests/ranks/handles_helpers.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(Requirement, A26_ExecuteAsyncReturnsAtOnceAndCanBeAwaited) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<int> data(100, 1), late(100, 1);
    const auto never = std::make_shared<Switch>();
    const Work limited = execute_async([&] { return work_of(never); }, 20ms);
    const Work done = execute_async([&] { return world.start_all_reduce(data); }, 60s);
    std::atomic<int> resumed = 0;
    const auto coroutine = [&]() -> Detached {
      co_await done;
      ++resumed;
      try {
        co_await limited;
      } catch (const DeadlineExceeded&) {
        ++resumed;
      }
    };
    coroutine();
    EXPECT_TRUE(comes_true([&] { return resumed == 2; }));
    EXPECT_THAT(done.result<int>(), Each(2));
    EXPECT_TRUE(never->cancelled);
    EXPECT_THROW(limited.future().get(), DeadlineExceeded);
    // Cancelling the handle cancels the operation.
    const auto other = std::make_shared<Switch>();
    const Work handle = execute_async([&] { return work_of(other); });
    EXPECT_TRUE(handle.cancel());
    EXPECT_TRUE(other->cancelled);
    EXPECT_TRUE(handle.is_cancelled());
  });
}

TEST(Requirement, A28_TheErrorOfADeadlineCarriesTheLimitAndWhoWasPending) {
  const auto on = std::make_shared<Switch>(), never = std::make_shared<Switch>();
  on->on = true;
  std::vector<std::function<Work()>> starts{[&] { return work_of(on); },
                                            [&] { return work_of(never); }};
  try {
    execute_all(starts, 30ms);
    ADD_FAILURE() << "no error";
  } catch (const DeadlineExceeded& error) {
    EXPECT_EQ(error.budget(), 30ms);
    EXPECT_THAT(error.pending(), ElementsAre("a switch"));
    EXPECT_STREQ(error.what(), "a switch did not complete within 0.03 s");
  }
}

TEST(Requirement, A31_WithoutALimitThereIsNone) {
  const auto state = std::make_shared<Switch>();
  const Work work = execute_async([&] { return work_of(state); });
  EXPECT_FALSE(work.wait_for(30ms));
  std::jthread later{[&] { state->on = true; }};
  std::vector<std::function<Work()>> starts{[&] { return work_of(state); }};
  EXPECT_THAT(execute_all(starts).front().result<float>(), ElementsAre(1, 2));
  EXPECT_THAT(execute([&] { return work_of(state); }).result<float>(), ElementsAre(1, 2));
  work.wait();
}

/// One of 20 operations is late and, in the end, one fails.
TEST(Requirement, A32_OfTwentyOperationsOneIsLateAndOneFails) {
  std::latch go{1};
  on_threads(2, bounded_settings(), [&](Communicator& world) {
    auto slow = world.split(0);
    std::vector<std::vector<int>> data(19, std::vector<int>(100, 1));
    std::vector<int> late(7, 1);
    if (world.rank() == 1) {
      for (auto& each : data) world.all_reduce(each);
      go.wait();
      slow->all_reduce(late);
      slow->all_reduce(late);
      return world.barrier();
    }
    OperationQueue queue;
    for (std::size_t i = 0; i < 18; ++i) queue.enqueue(world.start_all_reduce(data[i]));
    queue.enqueue(slow->start_all_reduce(late));
    const auto broken = std::make_shared<Switch>();
    queue.enqueue(work_of(broken));
    EXPECT_FALSE(queue.try_wait_for_all(50ms));
    EXPECT_TRUE(comes_true([&] { return queue.pending_count() == 2; }));
    // The same together: the failure names its operation, and the late one is cancelled.
    const auto together_start = [&] { return world.start_all_reduce(data[18]); };
    std::vector<std::function<Work()>> starts(18, [] { return work_from([] {}); });
    starts.emplace_back(together_start);
    starts.emplace_back([&] { return work_of(broken); });
    const auto started = execute_all_async(starts, 60s);
    broken->fails = true;
    const std::string text = text_thrown<OperationFailed>([&] { started.all.wait(); });
    EXPECT_EQ(text, "a switch failed: the switch broke");
    EXPECT_TRUE(comes_true([&] { return Work::wait_all(started.each, Deadline::in(1ms)); }));
    go.count_down();
    EXPECT_EQ(text_thrown<std::runtime_error>([&] { queue.wait_for_all(); }), "the switch broke");
    EXPECT_EQ(queue.pending_count(), 0U);
    EXPECT_THAT(late, Each(2));
    for (std::size_t i = 0; i < 18; ++i) EXPECT_THAT(data[i], Each(2)) << i;
    slow->all_reduce(late);
    world.barrier();
  });
}

TEST(Requirement, A33_AStopEndsAWaitAndTheOperationGoesOn) {
  std::latch stopped{1};
  on_threads(2, bounded_settings(), [&](Communicator& world) {
    std::vector<int> data(1000, 1);
    if (world.rank() == 1) {
      stopped.wait();
      return world.all_reduce(data);
    }
    std::stop_source stop;
    OperationQueue queue;
    const Work work = world.start_all_reduce(data);
    queue.enqueue(work);
    const std::jthread stopper{[&] { stop.request_stop(); }};
    EXPECT_FALSE(work.wait(stop.get_token()));
    EXPECT_FALSE(work.wait_for(60s, stop.get_token()));
    EXPECT_FALSE(queue.wait_for_all(stop.get_token()));
    EXPECT_FALSE(queue.try_wait_for_all(60s, stop.get_token()));
    EXPECT_EQ(queue.wait_for_any(60s, stop.get_token()), std::nullopt);
    EXPECT_EQ(Work::wait_any({&work, 1}, Deadline::never(), stop.get_token()), std::nullopt);
    stopped.count_down();
    EXPECT_TRUE(work.wait(std::stop_source{}.get_token()));
    EXPECT_TRUE(work.wait(stop.get_token())) << "it has ended, whatever was requested";
    EXPECT_THAT(data, Each(2));
  });
}

TEST(Requirement, A50_AwaitedOperationsHaveLimits) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<int> data(100, 1);
    const auto never = std::make_shared<Switch>();
    const Work pending = work_of(never);
    std::stop_source stop;
    std::string late, stopped;
    std::atomic<bool> finished = false;
    const auto coroutine = [&]() -> Detached {
      co_await within(world.start_all_reduce(data), 60s, stop.get_token());
      try {
        co_await within(pending, 20ms);
      } catch (const DeadlineExceeded& error) {
        late = error.what();
        EXPECT_EQ(error.budget(), 20ms);
        EXPECT_THAT(error.pending(), ElementsAre("a switch"));
      }
      stop.request_stop();
      try {
        co_await within(pending, {}, stop.get_token());
      } catch (const Cancelled& error) {
        stopped = error.what();
      }
      finished = true;
    };
    coroutine();
    EXPECT_TRUE(comes_true([&] { return finished.load(); }));
    EXPECT_THAT(data, Each(2));
    EXPECT_EQ(late, "a switch did not complete within 0.02 s; it continues");
    EXPECT_EQ(stopped, "a stop was requested while a switch was awaited; it continues");
    EXPECT_FALSE(pending.has_ended());
    never->on = true;
    pending.wait();
    EXPECT_EQ(world.start_barrier().future().wait_for(60s), std::future_status::ready);
  });
}

}  // namespace
}  // namespace capstan
