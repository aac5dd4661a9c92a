// SPDX-License-Identifier: Apache-2.0

// Handles of operations: what programs are promised about waits, stops, limits, events, queues and
// operations of other libraries.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>

#include "capstan/async/events.hpp"
#include "capstan/async/execute.hpp"
#include "capstan/async/foreign.hpp"
#include "capstan/async/operation_queue.hpp"
#include "capstan/async/overlap.hpp"
#include "capstan/async/within.hpp"
#include "tests/counted_allocations.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A coroutine that nobody awaits.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

template <class Condition>
bool comes_true(Condition condition) {
  for (const auto end = Deadline::in(60s); !condition(); std::this_thread::sleep_for(1ms))
    if (end.expired()) return false;
  return true;
}

template <class Error, class Call>
std::string text_thrown(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string{"another error: "} + error.what();
  }
  return "nothing";
}

/// An operation of another library that ends, or fails, when the test says so.
struct Switch {
  std::atomic<bool> on = false, fails = false, cancelled = false;
  float result[2] = {1, 2};
};
class SwitchOperation final : public ForeignOperation {
 public:
  SwitchOperation(std::shared_ptr<Switch> with, bool cancellable = true)
      : switch_(std::move(with)), cancellable_(cancellable) {}
  std::string describe() const override { return "a switch"; }
  bool advance() override {
    if (switch_->fails) throw std::runtime_error("the switch broke");
    return switch_->on;
  }
  bool cancel() override {
    if (cancellable_) switch_->cancelled = true;
    return cancellable_;
  }
  std::optional<Operation::Output> result() override {
    return Operation::Output{DataType::f32, switch_->result, 2};
  }

 private:
  std::shared_ptr<Switch> switch_;
  bool cancellable_;
};
Work work_of(const std::shared_ptr<Switch>& with, bool cancellable = true) {
  return work_from(
      std::unique_ptr<ForeignOperation>(std::make_unique<SwitchOperation>(with, cancellable)));
}

TEST(Requirement, A3_AHandleIsMadeFromAForeignOperation) {
  const auto state = std::make_shared<Switch>(), never = std::make_shared<Switch>();
  const Work work = work_of(state), other = work_of(never);
  EXPECT_FALSE(work.is_completed());
  EXPECT_FALSE(work.wait_for(1ms));
  EXPECT_EQ(work.describe(), "a switch");
  state->on = true;
  EXPECT_EQ(Work::wait_any(std::vector{other, work}), 1U);
  EXPECT_THAT(work.result<float>(), ElementsAre(1, 2));
  EXPECT_FALSE(work.cancel());
  EXPECT_TRUE(other.cancel());
  EXPECT_TRUE(never->cancelled);
  EXPECT_THROW(other.wait(), Cancelled);
  state->fails = true;
  EXPECT_THAT(text_thrown<std::runtime_error>([&] { work_of(state).wait(); }),
              HasSubstr("the switch broke"));
  EXPECT_THROW((void)work_from(std::unique_ptr<ForeignOperation>{}), InvalidArgument);
}

TEST(Requirement, A3_AHandleIsMadeFromAFunctionOrAFuture) {
  std::promise<std::vector<int>> promise;
  const Work later = work_from(promise.get_future(), "three numbers");
  const Work now = work_from([] { return 42; });
  const Work lazy = work_from(std::async(std::launch::deferred, [] { return 7.0; }));
  const Work fails = work_from([] { throw std::runtime_error("no"); }, "what fails");
  EXPECT_THAT((now.wait(), now.result<int>()), ElementsAre(42));
  EXPECT_THAT((lazy.wait(), lazy.result<double>()), ElementsAre(7.0));
  EXPECT_THROW(fails.wait(), std::runtime_error);
  EXPECT_EQ(fails.describe(), "what fails");
  EXPECT_FALSE(later.wait_for(1ms));
  promise.set_value({1, 2, 3});
  EXPECT_THAT((later.wait(), later.result<int>()), ElementsAre(1, 2, 3));
  EXPECT_THROW((void)work_from(std::future<int>{}), InvalidArgument);
  // A function that takes a stop token is asked to end.
  const Work stops = work_from([](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::this_thread::yield();
  });
  stops.withdraw();
  EXPECT_TRUE(stops.has_ended());
}

/// Beside operations of a communicator, in queues and events, with nobody that waits.
TEST(Requirement, A3_ForeignOperationsGoIntoQueuesAndEvents) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<int> data(100, 1);
    const auto state = std::make_shared<Switch>();
    std::atomic<int> completed = 0, failed = 0;
    OperationEvents events;
    events.on_complete([&](const Work&) { ++completed; });
    events.on_error([&](const Work&, const std::exception_ptr&) { ++failed; });
    OperationQueue queue;
    queue.enqueue(events.start(1, [&] { return work_of(state); }));
    queue.enqueue(events.start(2, [&] { return world.start_all_reduce(data); }));
    EXPECT_EQ(queue.wait_for_any(), 1U);
    (void)events.start(3, [&] { return work_from([] { throw std::runtime_error("no"); }); });
    EXPECT_TRUE(comes_true([&] { return failed == 1 && completed == 1; }));
    state->on = true;
    EXPECT_TRUE(comes_true([&] { return completed == 2; }));
    queue.wait_for_all();
    std::atomic<bool> resumed = false;
    const auto coroutine = [&]() -> Detached {
      co_await within(work_from([] {}), 60s);
      resumed = true;
    };
    coroutine();
    EXPECT_TRUE(comes_true([&] { return resumed.load(); }));
  });
}

TEST(Requirement, A4_OneStopSourceServesManyHandles) {
  // By a function, as g++ 12 with -Og takes a plain local for uninitialized.
  std::stop_source stop = [] { return std::stop_source{}; }();
  const auto never = std::make_shared<Switch>();
  std::vector<Work> works(4);
  for (Work& work : works) work = work_of(never);
  const Work tied = execute_async([&] { return works[3]; }, {}, stop.get_token());
  std::atomic<int> ended = 0;
  {
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 3; ++i)
      waiters.emplace_back([&, i] { ended += works[i].wait(stop.get_token()) ? 0 : 1; });
    stop.request_stop();
  }
  EXPECT_EQ(ended, 3);
  EXPECT_THROW(tied.wait(), Cancelled);  // execute_async cancels, waits do not
  EXPECT_TRUE(works[3].is_cancelled());
  EXPECT_FALSE(works[0].has_ended());
  never->on = true;
  for (int i = 0; i < 3; ++i) works[i].wait();
}

/// With default settings, and nobody who waits.
TEST(Requirement, A5_ALoopOnIsCompletedEnds) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    for (const std::size_t count : {1UL, 1000UL, 1'000'000UL}) {
      std::vector<int> data(count, 1);
      const Work work = world.start_all_reduce(data);
      while (!work.is_completed()) {
      }
      EXPECT_THAT(work.result<int>().back(), 2);
    }
    OperationQueue queue;
    std::vector<int> data(1000, 1), sent(100'000, world.rank()), received(100'000);
    queue.enqueue(world.start_all_reduce(data));
    queue.enqueue(world.start_exchange(
        {Message::to(1 - world.rank(), sent), Message::from(1 - world.rank(), received)}));
    while (queue.pending_count() > 0) {
    }
    EXPECT_THAT(received, Each(1 - world.rank()));
    while (queue.size() > 0) queue.clear_completed();
  });
}

TEST(Requirement, A5_ALoopOnIsCompletedEndsWhenAPeerIsGone) {
  auto world = Communicator::local_world(2, bounded_settings());
  std::vector<int> data(10, 1);
  const Work work = world[0].start_all_reduce(data);
  world.pop_back();
  while (!work.is_completed()) {
  }
  EXPECT_THROW(work.wait(), PeerLost);
}

TEST(Requirement, A9_AResultThatIsNotThereIsSaidSo) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<std::uint8_t> data(4, 1), sum(4);
    const Work barrier = world.start_barrier();
    barrier.wait();
    EXPECT_THAT(text_thrown<InvalidArgument>([&] { (void)barrier.result<std::uint8_t>(); }),
                HasSubstr("barrier() has no result"));
    const Work reduce = world.start_reduce(data, sum, 0);
    reduce.wait();
    if (world.rank() == 0)
      EXPECT_THAT(reduce.result<std::uint8_t>(), Each(2));
    else
      EXPECT_THROW((void)reduce.result<std::uint8_t>(), InvalidArgument);
    const Work message = world.rank() == 0 ? world.start_send(data, 1) : world.start_receive(sum);
    message.wait();
    if (world.rank() == 0)
      EXPECT_THROW((void)message.result<std::int8_t>(), InvalidArgument);
    else
      EXPECT_THAT(message.result<std::uint8_t>(), Each(1));
  });
}

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
    EXPECT_EQ(late, "a switch did not complete within 0.02 s; it goes on");
    EXPECT_EQ(stopped, "a stop was requested while a switch was awaited; it goes on");
    EXPECT_FALSE(pending.has_ended());
    never->on = true;
    pending.wait();
    EXPECT_EQ(world.start_barrier().future().wait_for(60s), std::future_status::ready);
  });
}

/// The handle's. A blocking call needs none.
TEST(Requirement, A51_AnOperationInTheBackgroundTakesOneAllocation) {
  if (sanitized) GTEST_SKIP() << "sanitizers allocate by themselves";
  Settings settings = bounded_settings();
  settings.autotune = false;  // measured calls agree on times now and then
  for (const int ranks : {1, 2})
    on_threads(ranks, settings, [](Communicator& world) {
      constexpr std::uint64_t count = 200;
      std::vector<float> data(2, 1), output(2);
      const auto during = [&](auto call) {
        for (int i = 0; i < 50; ++i) call();
        const std::uint64_t before = test::allocations();
        for (std::uint64_t i = 0; i < count; ++i) call();
        return test::allocations() - before;
      };
      EXPECT_LE(during([&] { world.start_all_reduce(data, output).wait(); }), count);
      EXPECT_LE(during([&] { world.start_barrier().wait(); }), count);
      EXPECT_EQ(during([&] { world.all_reduce(data, output); }), 0U);
    });
}

}  // namespace
}  // namespace capstan
