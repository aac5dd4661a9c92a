// SPDX-License-Identifier: Apache-2.0

// Operations in flight: waiting, cancelling, callbacks, queues, progress by waits and by a thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <random>

#include "capstan/async/events.hpp"
#include "capstan/async/execute.hpp"
#include "capstan/async/operation_queue.hpp"
#include "capstan/async/overlap.hpp"
#include "tests/ranks/progress_ways.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Async : public ProgressWays {};

INSTANTIATE_TEST_SUITE_P(Progress, Async, ::testing::Bool(), ProgressWays::name);

TEST_P(Async, OneThreadWaitsForWorksOfSeveralRanksTogether) {
  auto world = Communicator::local_world(3, settings());
  std::vector<std::vector<float>> data(3, std::vector<float>(20'000, 1));
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < 3; ++rank)
    works.push_back(world[rank].start_all_reduce(data[rank]));
  ASSERT_TRUE(Work::wait_all(works, Deadline::in(60s)));
  for (const auto& result : data) EXPECT_THAT(result, Each(3.0f));
}

TEST_P(Async, ManyInFlightCompleteInAnyOrderOfWaiting) {
  on_threads(4, settings(), [](Communicator& world) {
    constexpr int n = 40;
    std::vector<std::vector<float>> data(n);
    std::vector<Work> works;
    for (int i = 0; i < n; ++i) {
      data[i].assign(static_cast<std::size_t>(i % 7) * 1000 + 1,
                     static_cast<float>(world.rank() + i));
      works.push_back(i % 3 == 2 ? world.start_broadcast(data[i], i % 4)
                                 : world.start_all_reduce(data[i]));
    }
    std::mt19937 random{static_cast<unsigned>(world.rank())};
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    for (const int i : order) {
      works[i].wait();
      const float expected = i % 3 == 2 ? static_cast<float>(i % 4 + i) : 6.0f + 4.0f * i;
      ASSERT_THAT(data[i], Each(expected)) << i;
      ASSERT_EQ(works[i].result<float>().data(), data[i].data());
    }
  });
}

TEST_P(Async, WaitForLeavesTheOperationRunning) {
  std::latch waited{1};
  on_threads(2, settings(), [&](Communicator& world) {
    std::vector<int> data(1000, world.rank() + 1);
    if (world.rank() == 1) waited.wait();
    Work work = world.start_all_reduce(data);
    if (world.rank() == 0) {
      EXPECT_FALSE(work.wait_for(10ms));
      EXPECT_FALSE(work.is_completed());
      EXPECT_THROW(work.result<int>(), InvalidArgument);
      waited.count_down();
    }
    EXPECT_TRUE(work.wait_for(60s));
    EXPECT_THAT(data, Each(3));
    EXPECT_THROW(work.result<float>(), InvalidArgument);
    EXPECT_FALSE(work.cancel());
  });
}

/// Rank 0 cancels at some moment. The others never notice, and nothing writes to its memory again.
Request sum_of(std::vector<float>& data) {
  return {.collective = Collective::all_reduce,
          .type = DataType::f32,
          .input = data.data(),
          .input_count = Elements{data.size()},
          .output = data.data(),
          .output_count = Elements{data.size()},
          .reducer = ReduceOp::sum};
}

TEST_P(Async, ABriefRunGivesTheCallThatGoesOn) {
  auto world = Communicator::local_world(2, settings());
  for (const std::size_t count : {1, 1000, 100'000}) {
    for (int round = 0; round < 3; ++round) {  // the first one is not known yet
      std::vector<float> first(count, 1), second(count, 2);
      const auto waits = world[0].run_briefly(sum_of(first));
      ASSERT_TRUE(waits) << "rank 1 has not come";
      if (!GetParam()) {
        EXPECT_FALSE(waits->has_ended());
      }
      EXPECT_THAT(waits->describe(), HasSubstr("all_reduce"));
      const auto other = world[1].run_briefly(sum_of(second));
      std::vector<Work> works{*waits};
      if (other) works.push_back(*other);
      ASSERT_TRUE(Work::wait_all(works, Deadline::in(60s)));
      EXPECT_THAT(first, Each(3.0f));
      EXPECT_THAT(second, Each(3.0f));
    }
  }
  auto alone = Communicator::local_world(1, settings());
  std::vector<float> data(5, 1);
  EXPECT_FALSE(alone[0].run_briefly(sum_of(data))) << "nobody to wait for";
  EXPECT_THROW(
      std::ignore = world[0].run_briefly(Request{.collective = Collective::broadcast, .root = 7}),
      InvalidArgument);
}

/// Calls that lead to several, or need an agreement first.
TEST_P(Async, ABriefRunDoesWhateverARunDoes) {
  on_threads(2, settings(), [](Communicator& world) {
    std::vector<float> data(10, 1);
    Request scaled = sum_of(data);
    scaled.reducer = Reducer::premultiplied_sum(2.0);
    if (const auto work = world.run_briefly(scaled)) work->wait();
    EXPECT_THAT(data, Each(4.0f));

    const std::size_t mine = static_cast<std::size_t>(world.rank()) + 1;
    const std::vector<std::size_t> counts(2, mine), received{1, 2};
    std::vector<float> from(2 * mine, static_cast<float>(world.rank())), to(3);
    Request exchange{.collective = Collective::all_to_all_v,
                     .type = DataType::f32,
                     .input = from.data(),
                     .input_count = Elements{from.size()},
                     .output = to.data(),
                     .output_count = Elements{to.size()},
                     .counts = request::counts(counts)};
    exchange.receive_counts = request::counts(received);
    if (const auto work = world.run_briefly(exchange)) work->wait();
    EXPECT_THAT(to, ElementsAre(0, 1, 1));

    auto shared = world.allocate<float>(5000);
    std::ranges::fill(shared, 1.0f);
    for (int call = 0; call < 3; ++call) {
      Request in_place = sum_of(data);
      in_place.input = in_place.output = shared.data();
      in_place.input_count = in_place.output_count = Elements{shared.size()};
      if (const auto work = world.run_briefly(in_place)) work->wait();
    }
    EXPECT_THAT(shared, Each(8.0f));
  });
}

TEST_P(Async, ABriefRunThatIsCancelledDisturbsNobody) {
  auto world = Communicator::local_world(2, settings());
  for (const std::size_t count : {1, 100'000}) {
    std::vector<float> first(count, 1), second(count, 2);
    const auto waits = world[0].run_briefly(sum_of(first));
    ASSERT_TRUE(waits);
    EXPECT_TRUE(waits->cancel());
    first.assign(count, -1);
    std::vector<Work> works;  // of both ranks, as this thread moves both on
    works.push_back(world[1].start(sum_of(second)));
    for (auto& rank : world) works.push_back(rank.start_barrier());
    ASSERT_TRUE(Work::wait_all(works, Deadline::in(60s)));
    EXPECT_THAT(second, Each(3.0f));
    EXPECT_THAT(first, Each(-1.0f)) << "the caller's again";
  }
}

TEST_P(Async, WaitAnyNamesTheOneThatEnded) {
  std::latch go{1};
  on_threads(2, settings(), [&](Communicator& world) {
    auto other = world.split(0);
    std::vector<int> a(10, 1), b(10, 1);
    if (world.rank() == 1) {
      other->all_reduce(b);
      go.wait();
      world.all_reduce(a);
      return;
    }
    OperationQueue queue;
    queue.enqueue(world.start_all_reduce(a));
    queue.enqueue(other->start_all_reduce(b));
    EXPECT_EQ(queue.wait_for_any(std::chrono::hours::max()), 1u);
    EXPECT_EQ(queue.pending_count(), 1u);
    EXPECT_FALSE(queue.try_wait_for_all(5ms));
    queue.clear_completed();
    EXPECT_EQ(queue.size(), 1u);
    EXPECT_EQ(queue.wait_for_any(5ms), std::nullopt);
    go.count_down();
    queue.wait_for_all();
    EXPECT_THAT(queue.results<int>().front(), Each(2));
    EXPECT_THROW(OperationQueue{}.wait_for_any(), InvalidArgument);
    EXPECT_THROW(queue.enqueue(Work{}), InvalidArgument);
  });
}

TEST_P(Async, AQueueCancelsOnDestruction) {
  std::latch gone{1};
  on_threads(2, settings(), [&](Communicator& world) {
    std::vector<int> data(3000, 1);
    if (world.rank() == 0) {
      Work work;
      {
        OperationQueue queue;
        queue.enqueue(work = world.start_all_reduce(data));
      }
      EXPECT_TRUE(work.is_cancelled());
      gone.count_down();
    } else {
      gone.wait();
      world.all_reduce(data);
      EXPECT_THAT(data, Each(2));
    }
    world.barrier();
  });
}

TEST_P(Async, DeadlinesAndStopsHaveErrorsOfTheirOwn) {
  std::latch done{1};
  on_threads(2, settings(), [&](Communicator& world) {
    std::vector<int> data(100, 1);
    const auto start = [&] { return world.start_all_reduce(data); };
    if (world.rank() == 0) {
      EXPECT_THROW(execute(start, 5ms), DeadlineExceeded);
      std::stop_source stop;
      std::jthread stopper{[&] { stop.request_stop(); }};
      EXPECT_THROW(execute(start, 60s, stop.get_token()), Cancelled);
      try {
        execute([&] { return world.start_broadcast(data, 9); }, 60s);
        ADD_FAILURE() << "root 9 does not exist";
      } catch (const OperationFailed& error) {
        EXPECT_THAT(error.what(), HasSubstr("root 9"));
        EXPECT_THROW(std::rethrow_exception(error.cause()), InvalidArgument);
      }
      done.count_down();
    } else {
      done.wait();
      for (int i = 0; i < 2; ++i) world.all_reduce(data);
    }
    data.assign(100, 1);
    std::vector<std::function<Work()>> two{start, [&] { return world.start_barrier(); }};
    const auto works = execute_all(two, 60s);
    EXPECT_THAT(works.front().result<int>(), Each(2));
  });
}

TEST_P(Async, ComputationOverlaps) {
  on_threads(3, settings(), [](Communicator& world) {
    std::vector<float> data(5000, 1);
    const int answer = compute_while_communicating([&] { return world.start_all_reduce(data); },
                                                   [] { return 42; });
    EXPECT_EQ(answer, 42);
    EXPECT_THAT(data, Each(3.0f));

    std::vector<std::vector<float>> tensors(6, std::vector<float>(3000));
    int next = 0;
    const auto works = pipeline_compute_communicate(
        tensors, [&](auto& tensor) { std::ranges::fill(tensor, static_cast<float>(++next)); },
        [&](auto& tensor) { return world.start_all_reduce(tensor); });
    for (std::size_t i = 0; i < works.size(); ++i)
      EXPECT_THAT(works[i].result<float>(), Each(3.0f * static_cast<float>(i + 1)));
  });
}

TEST_P(Async, EventsReachEveryHandlerOnce) {
  on_threads(2, settings(), [](Communicator& world) {
    std::vector<std::vector<int>> data(30, std::vector<int>(50, 1));
    std::atomic<int> all = 0, threes = 0, own = 0, errors = 0, chained = 0;
    std::vector<int> extra(10, 1);
    {
      OperationEvents events;
      events.on_complete([&](const Work&) { ++all; });
      events.on_complete(3, [&](const Work&) { ++threes; });
      events.on_error([&](const Work&, std::exception_ptr) { ++errors; });
      for (int i = 0; i < 30; ++i)
        events.start(
            i % 10, [&] { return world.start_all_reduce(data[i]); }, [&](const Work&) { ++own; });
      while (own < 30) std::this_thread::yield();
      events.start(
          99, [&] { return world.start_barrier(); },
          [&](const Work&) {
            events.start(
                100, [&] { return world.start_all_reduce(extra); },
                [&](const Work&) { ++chained; });
          });
      while (chained < 1) std::this_thread::yield();
      // A handler that throws is an error of its operation.
      events.start(
          7, [&] { return world.start_barrier(); },
          [](const Work&) { throw std::runtime_error("handler"); });
      while (errors < 1) std::this_thread::yield();
    }
    EXPECT_EQ(all, 33);
    EXPECT_EQ(threes, 3);
    EXPECT_EQ(own, 30);
    EXPECT_EQ(errors, 1);
    EXPECT_THAT(extra, Each(2));
  });
}

TEST(AsyncHandles, FuturesAndCoroutinesNeedNobodyThatWaits) {
  struct Task {
    struct promise_type {
      Task get_return_object() { return {}; }
      std::suspend_never initial_suspend() { return {}; }
      std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
  };
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<int> a(100, 1), b(100, 2);
    auto future = world.start_all_reduce(a).future();
    ASSERT_EQ(future.wait_for(60s), std::future_status::ready);
    EXPECT_THAT(a, Each(2));

    std::atomic<bool> finished = false;
    const auto coroutine = [&]() -> Task {
      co_await world.start_all_reduce(a);
      co_await world.start_all_reduce(b);
      finished = true;
    };
    coroutine();
    while (!finished) std::this_thread::yield();
    EXPECT_THAT(a, Each(4));
    EXPECT_THAT(b, Each(4));
  });
}

TEST(AsyncHandles, AnEmptyWorkSaysSo) {
  EXPECT_FALSE(Work{}.valid());
  EXPECT_THROW(Work{}.wait(), InvalidArgument);
  EXPECT_THROW(Work::wait_any({}), InvalidArgument);
}

TEST(AsyncHandles, ADestroyedCommunicatorAbortsWhatIsPending) {
  auto world = Communicator::local_world(2, bounded_settings());
  std::vector<int> data(10);
  Work work = world[0].start_all_reduce(data);
  EXPECT_FALSE(work.is_completed());
  world.clear();
  EXPECT_THROW(work.wait(), Aborted);
}

}  // namespace
}  // namespace capstan
