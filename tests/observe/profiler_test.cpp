// SPDX-License-Identifier: Apache-2.0

// The profiler: what it records, what that costs, and what it keeps. profiler_statistics_test.cpp
// has what it computes.

#include "capstan/observe/profiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "capstan/async/foreign.hpp"
#include "capstan/error.hpp"
#include "tests/counted_allocations.hpp"
#include "tests/observe/measurements.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A future that is ready: with an error, if there is one.
std::future<void> ready(const std::exception_ptr& error) {
  std::promise<void> promise;
  error ? promise.set_exception(error) : promise.set_value();
  return promise.get_future();
}

TEST(Requirement, O34_ARecordHasOperationBytesDurationBandwidthRanksAlgorithmAndTimeStamp) {
  Profiler profiler;
  const auto before = std::chrono::system_clock::now();
  Measurement measured = all_reduce_of(mebibyte, 2ms);
  measured.ended = std::chrono::steady_clock::now();
  measured.began = measured.ended - 2ms;
  measured.rank = 3;
  measured.tag = "gradients";
  profiler.record(measured);
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(1));
  const OperationProfile& profile = profiles.front();
  EXPECT_EQ(profile.operation, "AllReduce");
  EXPECT_EQ(profile.bytes, mebibyte);
  EXPECT_EQ(profile.duration, 2ms);
  EXPECT_DOUBLE_EQ(profile.bandwidth, 500);
  EXPECT_EQ(profile.ranks, 4);
  EXPECT_EQ(profile.algorithm, "Ring");
  EXPECT_EQ(profile.rank, 3);
  EXPECT_EQ(profile.tag, "gradients");
  EXPECT_FALSE(profile.failed);
  EXPECT_EQ(profile.index, 0U);
  EXPECT_EQ(profile.timestamp - profile.began, 2ms);
  EXPECT_GT(profile.timestamp, before - 1s);
  EXPECT_LT(profile.timestamp, std::chrono::system_clock::now() + 1s);
}

TEST(Requirement, O35_TheTextOfARecord) {
  Profiler profiler;
  profiler.record(all_reduce_of(mebibyte, 2ms));
  profiler.record({.operation = "barrier", .began = moment, .ended = moment + 1500ns, .ranks = 2});
  const auto profiles = profiler.profiles();
  EXPECT_EQ(profiles.at(0).to_string(), "AllReduce (Ring): 1.00 MB, 2.00 ms, 500.00 MB/s, 4 ranks");
  EXPECT_EQ(profiles.at(1).to_string(), "barrier (): 0.00 MB, 0.00 ms, 0.00 MB/s, 2 ranks");
}

TEST(Requirement, O36_ProfilesAreASnapshotInTheOrderOfTheEnds) {
  Profiler profiler;
  profiler.record({.operation = "first"});
  const auto profiles = profiler.profiles();
  profiler.record({.operation = "second"});
  EXPECT_THAT(profiles, SizeIs(1));
  EXPECT_THAT(profiler.profiles(), ElementsAre(Field(&OperationProfile::operation, "first"),
                                               Field(&OperationProfile::operation, "second")));
}

TEST(Requirement, O37_AProfilerIsEnabledUnlessToldAndOffItRecordsNothing) {
  EXPECT_TRUE(Profiler{}.enabled());
  Profiler off{false};
  EXPECT_FALSE(off.enabled());
  EXPECT_EQ(off.profile("sum", mebibyte, [] { return 7; }), 7);
  off.record(all_reduce_of(mebibyte, 2ms));
  off.profile_async("sum", mebibyte, [] { return work_from(ready(nullptr)); }).wait();
  EXPECT_THROW(off.profile("sum", mebibyte, []() -> int { throw std::runtime_error{"no"}; }),
               std::runtime_error);
  EXPECT_THAT(off.profiles(), IsEmpty());
  EXPECT_THAT(off.groups(), IsEmpty());
  EXPECT_EQ(off.statistics().operations, 0U);
  EXPECT_EQ(off.lost(), 0U);
  off.clear();
}

TEST(Requirement, O38_AnyFunctionIsMeasuredAndItsResultReturned) {
  Profiler profiler;
  int number = 1;
  EXPECT_EQ(*profiler.profile("owner", Bytes{8}, [] { return std::make_unique<int>(5); }), 5);
  int& same = profiler.profile("reference", Bytes{0}, [&]() -> int& { return number; }, 2, "tree");
  profiler.profile("nothing", Bytes{0}, [&] { number = 2; });
  EXPECT_EQ(&same, &number);
  EXPECT_EQ(number, 2);
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(3));
  EXPECT_EQ(profiles[0].bytes, Bytes{8});
  EXPECT_EQ(profiles[0].ranks, 0);
  EXPECT_EQ(profiles[0].algorithm, "");
  EXPECT_EQ(profiles[1].ranks, 2);
  EXPECT_EQ(profiles[1].algorithm, "tree");
}

TEST(Requirement, O38_AFunctionThatThrowsIsRecordedAsFailedAndItsErrorPassesOn) {
  Profiler profiler;
  profiler.profile("good", mebibyte, [] {});
  try {
    profiler.profile("bad", mebibyte, [] { throw std::out_of_range{"mine"}; });
    FAIL() << "nothing was thrown";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "mine");
  }
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(2));
  EXPECT_FALSE(profiles[0].failed);
  EXPECT_TRUE(profiles[1].failed);
  EXPECT_EQ(profiler.statistics().operations, 1U);
  EXPECT_EQ(profiler.statistics().failures, 1U);
}

TEST(Requirement, O38_AFunctionThatIsCalledWhileAnExceptionPassesHasNotFailed) {
  Profiler profiler;
  struct AtEnd {
    ~AtEnd() {
      profiler.profile("clean-up", Bytes{0}, [] {});
    }
    Profiler& profiler;
  };
  try {
    const AtEnd at_end{profiler};
    throw std::runtime_error{"another"};
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(profiler.profiles(), ElementsAre(Field(&OperationProfile::failed, false)));
}

/// An awaitable that a test ends.
struct Gate {
  std::coroutine_handle<> waiting{};
  bool broken = false;

  auto operator co_await() {
    struct Awaiter {
      Gate& gate;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> coroutine) { gate.waiting = coroutine; }
      int await_resume() const {
        if (gate.broken) throw std::runtime_error{"broken"};
        return 9;
      }
    };
    return Awaiter{*this};
  }
};

/// An awaitable for a profiler: refers to a gate.
struct Passage {
  Gate* gate;
  auto operator co_await() const { return gate->operator co_await(); }
};

struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Detached await_through(Profiler profiler, Gate& gate, int& result) {
  try {
    result = co_await profiler.profile_async(
        "passage", Bytes{64}, [&] { return Passage{&gate}; }, 3, "stairs");
  } catch (const std::runtime_error&) {
    result = -1;
  }
}

TEST(Requirement, O39_AnAwaitableIsMeasuredUntilItHasEnded) {
  Profiler profiler;
  Gate gate, broken{.broken = true};
  int result = 0;
  await_through(profiler, gate, result);
  EXPECT_THAT(profiler.profiles(), IsEmpty()) << "it has not ended";
  gate.waiting.resume();
  EXPECT_EQ(result, 9);
  await_through(profiler, broken, result);
  broken.waiting.resume();
  EXPECT_EQ(result, -1);
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(2));
  EXPECT_EQ(profiles[0].operation, "passage");
  EXPECT_EQ(profiles[0].bytes, Bytes{64});
  EXPECT_EQ(profiles[0].ranks, 3);
  EXPECT_EQ(profiles[0].algorithm, "stairs");
  EXPECT_FALSE(profiles[0].failed);
  EXPECT_TRUE(profiles[1].failed);
}

TEST(Requirement, O39_AWorkIsMeasuredUntilItHasEndedInAnyWay) {
  Profiler profiler;
  std::promise<void> promise;
  const auto start = [&] { return work_from(promise.get_future()); };
  std::string name = "work whose name goes before it ends";
  const Work work = profiler.profile_async(name, mebibyte, start);
  name.assign(name.size(), '?');
  EXPECT_THAT(profiler.profiles(), IsEmpty());
  promise.set_value();
  work.wait();
  const Work failing = profiler.profile_async("failing", mebibyte, [] {
    return work_from(ready(std::make_exception_ptr(std::runtime_error{"no"})));
  });
  EXPECT_THROW(failing.wait(), std::exception);
  EXPECT_THROW(profiler.profile_async("start", mebibyte,
                                      []() -> Work { throw std::runtime_error{"never"}; }),
               std::runtime_error);
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(3));
  EXPECT_EQ(profiles[0].operation, "work whose name goes before it ends");
  EXPECT_FALSE(profiles[0].failed);
  EXPECT_TRUE(profiles[1].failed);
  EXPECT_TRUE(profiles[2].failed);
}

TEST(Requirement, O41_ClearForgetsAllOperations) {
  Profiler profiler;
  profiler.record({.operation = "before"});
  profiler.clear();
  EXPECT_THAT(profiler.profiles(), IsEmpty());
  EXPECT_THAT(profiler.groups(), IsEmpty());
  EXPECT_EQ(profiler.statistics().operations, 0U);
  profiler.record({.operation = "after"});
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(1));
  EXPECT_EQ(profiles.front().operation, "after");
  EXPECT_EQ(profiles.front().index, 0U);
}

TEST(Requirement, O45_ManyThreadsRecordAndReadAtTheSameTime) {
  constexpr int threads = 4, calls = sanitized ? 500 : 5000;
  Profiler profiler{ProfilerOptions{.capacity = 1000}};
  std::atomic<int> running = threads;
  {
    std::vector<std::jthread> recording;
    for (int thread = 0; thread < threads; ++thread)
      recording.emplace_back([&, thread] {
        const std::string name = "thread " + std::to_string(thread);
        for (int i = 0; i < calls; ++i) profiler.profile(name, Bytes{8}, [] {}, thread);
        --running;
      });
    while (running > 0)
      for (const OperationProfile& profile : profiler.profiles())
        EXPECT_EQ(profile.operation, "thread " + std::to_string(profile.ranks));
  }
  EXPECT_EQ(profiler.statistics().operations, threads * calls);
  EXPECT_EQ(profiler.statistics().bytes, Bytes{8} * (threads * calls));
  const auto groups = profiler.groups();
  ASSERT_THAT(groups, SizeIs(threads));
  for (const ProfileGroup& group : groups) EXPECT_EQ(group.statistics.operations, calls);
}

TEST(Requirement, O46_RecordsLiveAsLongAsTheLastCopy) {
  std::optional<Profiler> first{Profiler{}};
  Profiler second = *first;
  first->record({.operation = "one"});
  first.reset();
  second.record({.operation = "two"});
  EXPECT_THAT(second.profiles(), SizeIs(2));
  Work work;
  std::promise<void> promise;
  {
    Profiler gone;
    work = gone.profile_async("late", Bytes{0}, [&] { return work_from(promise.get_future()); });
  }
  promise.set_value();
  work.wait();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Requirement, O47_AnErrorOfTheProfilerNeverReachesTheOperation) {
  Profiler profiler;
  std::promise<void> promise;
  const Work work = work_from(promise.get_future());
  const Work returned = profiler.profile_async("work", Bytes{0}, [&] {
    test::memory_is_out() = true;  // until the profiler has asked for its end
    return work;
  });
  test::memory_is_out() = false;
  promise.set_value();
  returned.wait();
  EXPECT_EQ(profiler.lost(), 1U);
  EXPECT_THAT(profiler.profiles(), IsEmpty());

  test::memory_is_out() = true;
  const int result =
      profiler.profile("a name that is new and longer than fifteen", Bytes{0}, [] { return 3; });
  test::memory_is_out() = false;
  EXPECT_EQ(result, 3);
  EXPECT_THAT(profiler.profiles(), SizeIs(1)) << "recording needs no memory";
}

TEST(Requirement, O48_RecordingAllocatesNothing) {
  Profiler profiler{ProfilerOptions{.capacity = 100}};
  const std::string name(200, 'n');
  const std::uint64_t before = test::allocations();
  for (int i = 0; i < 300; ++i)
    profiler.profile(
        std::string_view{name}.substr(0, static_cast<std::size_t>(i) % 70), Bytes{8}, [] {}, 2,
        "ring");
  EXPECT_EQ(test::allocations(), before);
  EXPECT_EQ(profiler.statistics().operations, 300U);
}
#endif

TEST(Profiler, MemoryIsBounded) {
  Profiler profiler{ProfilerOptions{.capacity = 4}};
  for (int i = 0; i < 10; ++i) profiler.record(all_reduce_of(Bytes{static_cast<unsigned>(i)}, 1s));
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(4));
  EXPECT_EQ(profiles.front().bytes, Bytes{6});
  EXPECT_EQ(profiles.front().index, 6U);
  EXPECT_EQ(profiles.back().bytes, Bytes{9});
  EXPECT_EQ(profiler.statistics().operations, 10U);
  EXPECT_EQ(profiler.statistics().bytes, Bytes{45});
  EXPECT_THROW(Profiler{ProfilerOptions{.capacity = 0}}, InvalidArgument);
  EXPECT_THROW(Profiler{ProfilerOptions{.capacity = (1 << 24) + 1}}, InvalidArgument);
}

TEST(Profiler, TheNumberAndLengthOfNamesIsBounded) {
  Profiler profiler;
  for (int i = 0; i < 1100; ++i) profiler.record({.operation = std::to_string(i)});
  const auto profiles = profiler.profiles();
  ASSERT_THAT(profiles, SizeIs(1100));
  for (int i = 0; i < 1022; ++i)
    EXPECT_EQ(profiles[static_cast<std::size_t>(i)].operation, std::to_string(i));
  for (std::size_t i = 1022; i < 1100; ++i) EXPECT_EQ(profiles[i].operation, "(other)");
  const auto groups = profiler.groups();
  ASSERT_THAT(groups, SizeIs(256));
  EXPECT_EQ(groups.back().operation, "(other)");
  EXPECT_EQ(groups.back().statistics.operations, 1100U - 255U);
  EXPECT_EQ(profiler.statistics().operations, 1100U);

  Profiler other;
  other.record({.operation = std::string(100, 'x')});
  EXPECT_EQ(other.profiles().front().operation, std::string(63, 'x'));
}

}  // namespace
}  // namespace capstan
