// SPDX-License-Identifier: Apache-2.0

// Handles of operations: what programs are promised about waits, results, allocations and
// operations of other libraries.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "capstan/async/events.hpp"
#include "capstan/async/execute.hpp"
#include "capstan/async/foreign.hpp"
#include "capstan/async/operation_queue.hpp"
#include "capstan/async/within.hpp"
#include "tests/counted_allocations.hpp"
#include "tests/ranks/handles_helpers.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
