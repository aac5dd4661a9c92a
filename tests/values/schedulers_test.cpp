// SPDX-License-Identifier: Apache-2.0

// Schedulers: the debug scheduler, the pool and oneTBB behind one interface.

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <latch>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "capstan/values/debug_dag.hpp"
#include "capstan/values/task_limit.hpp"
#include "tests/values/helpers.hpp"

namespace capstan::values {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

/// oneTBB is not built for the thread sanitizer, which takes its queues for races.
bool tbb_works_here() {
  return TbbScheduler::is_available() && !sanitized;
}

std::vector<std::unique_ptr<Scheduler>> all_schedulers() {
  std::vector<std::unique_ptr<Scheduler>> all;
  all.push_back(std::make_unique<DebugScheduler>());
  all.push_back(std::make_unique<Pool>(Pool::Options{.workers = 3}));
  if (tbb_works_here()) all.push_back(std::make_unique<TbbScheduler>());
  return all;
}

AsyncTask slow_assign(WriteBuffer<int> out, int value) {
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  co_await out = value;
}

TEST_F(Requirement, V13_GetWaitBlocksUntilPendingWritersAreDone) {
  Pool pool{{.workers = 2}};
  const ScopedScheduler inner{pool};
  Async<int> value;
  for (int i = 1; i <= 3; ++i) schedule(slow_assign(value.write(), i));
  EXPECT_EQ(value.get_wait(), 3);
}

AsyncTask meet(ReadBuffer<int> in, std::latch* all) {
  co_await in;
  all->arrive_and_wait();  // returns only if the others run at the same time
}

TEST_F(Requirement, V17_ReadersRunInParallelWhenTheWriterIsDone) {
  Pool pool{{.workers = 3}};
  const ScopedScheduler inner{pool};
  std::latch all{3};
  Async<int> value;
  WriteBuffer<int> writer = value.write();
  for (int i = 0; i < 3; ++i) schedule(meet(value.read(), &all));
  schedule(assign(std::move(writer), 1));
  pool.wait_all();
  EXPECT_TRUE(all.try_wait());
}

TEST_F(Requirement, V20_ABufferThatIsNotReadySuspendsAndTheSchedulerResumes) {
  Pool pool{{.workers = 1}};
  Async<int> value, result;
  WriteBuffer<int> writer = value.write();
  pool.schedule([](ReadBuffer<int> in, WriteBuffer<std::thread::id> out) -> AsyncTask {
    co_await in;
    co_await out = std::this_thread::get_id();
  }(value.read(), Async<std::thread::id>{}.write()));
  Async<std::thread::id> resumed_on, begun_on;
  pool.schedule([](ReadBuffer<int> in, WriteBuffer<std::thread::id> begun,
                   WriteBuffer<std::thread::id> resumed) -> AsyncTask {
    co_await begun = std::this_thread::get_id();
    begun.release();
    co_await in;
    co_await resumed = std::this_thread::get_id();
  }(value.read(), begun_on.write(), resumed_on.write()));
  const auto worker = begun_on.get_wait(pool);
  EXPECT_NE(worker, std::this_thread::get_id());
  EXPECT_THAT(pool.pending(), Not(IsEmpty()));
  writer.get() = 1;
  writer.release();  // on this thread, which does not run the task
  EXPECT_EQ(resumed_on.get_wait(pool), worker);
}

TEST_F(Requirement, V30_SchedulersHaveOneInterface) {
  for (const auto& each : all_schedulers()) {
    const ScopedScheduler inner{*each};
    Async<int> value = 0;
    for (int i = 0; i < 100; ++i) schedule(add(value.mutate(), i));
    Async<int> copy = value;
    EXPECT_EQ(copy.get_wait(*each), 4950);
    schedule(fail(value.write(), "as everywhere"));
    EXPECT_THROW(value.get_wait(), TaskFailed);
    each->wait_all();
    EXPECT_THAT(each->pending(), IsEmpty());
  }
}

TEST_F(Requirement, V31_TheDebugSchedulerRunsOnOneThreadInAnOrderBySeed) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int> first, second;
    for (std::vector<int>* seen : {&first, &second}) {
      DebugScheduler mine{Order::shuffled, seed};
      for (int i = 0; i < 4; ++i)
        mine.schedule([](std::vector<int>* all, int number) -> AsyncTask {
          all->push_back(number);
          co_return;
        }(seen, i));
      mine.run_all();
    }
    EXPECT_EQ(first, second) << "seed " << seed;
    orders.insert(first);
  }
  EXPECT_GT(orders.size(), 5U);
}

AsyncTask crossed(ReadBuffer<int> in, WriteBuffer<double> out) {
  co_await out = co_await in;
}
AsyncTask crossed_back(ReadBuffer<double> in, WriteBuffer<int> out) {
  co_await out = static_cast<int>(co_await in);
}

TEST_F(Requirement, V31_TheDebugSchedulerFindsDeadlocksAndNamesTasksAndValues) {
  Async<int> a;
  Async<double> b;
  WriteBuffer<int> to_a = a.write();
  WriteBuffer<double> to_b = b.write();
  schedule(crossed(a.read(), std::move(to_b)));
  schedule(crossed_back(b.read(), std::move(to_a)));
  const auto says = AllOf(
      HasSubstr("2 tasks wait"), ContainsRegex("schedulers_test.cpp:[0-9]+ "),
      HasSubstr("waits to read epoch 1 of value " + std::to_string(a.info().index) + " (int)"),
      HasSubstr("holds the write of epoch 1 of value " + std::to_string(b.info().index) +
                " (double)"));
  EXPECT_THAT([&] { scheduler.run_all(); }, ThrowsMessage<Deadlock>(says));
  EXPECT_THAT([&] { b.get_wait(); }, ThrowsMessage<Deadlock>(says));
  EXPECT_THAT(scheduler.pending(), SizeIs(2));
  ::testing::internal::CaptureStderr();
  {
    DebugScheduler ends;
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

TEST_F(Requirement, V32_OneTbbRunsTasks) {
  if (!TbbScheduler::is_available()) {
    EXPECT_THAT([] { TbbScheduler{}; }, ThrowsMessage<InvalidArgument>(HasSubstr("libtbb-dev")));
  }
  if (!tbb_works_here()) GTEST_SKIP() << "oneTBB is not built for sanitizers";
  TbbScheduler tbb;
  const ScopedScheduler inner{tbb};
  std::array<Async<int>, 8> values;
  for (auto& value : values) value = 0;
  for (int i = 0; i < 1000; ++i)
    for (auto& value : values) schedule(add(value.mutate(), i));
  for (auto& value : values) EXPECT_EQ(value.get_wait(), 499500);
  Async<int> node;
  schedule([](WriteBuffer<int> out) -> AsyncTask {
    co_await out = TbbScheduler::node_of_this_thread().value_or(-1);
  }(node.write()));
  EXPECT_GE(node.get_wait(), 0);
}

AsyncTask where(WriteBuffer<int> out) {
  co_await out = Pool::node_of_this_thread().value_or(-1);
}

TEST_F(Requirement, V33_APreferredNumaNodeIsHonoured) {
  Pool pool{{.workers = 4, .numa_nodes = 2}};
  ASSERT_EQ(pool.numa_nodes(), 2);
  for (int i = 0; i < 50; ++i)
    for (const int node : {0, 1}) {
      Async<int> ran_on;
      AsyncTask task = where(ran_on.write());
      EXPECT_EQ(task.preferred_numa_node(), std::nullopt);
      task.set_preferred_numa_node(node);
      EXPECT_EQ(task.preferred_numa_node(), node);
      pool.schedule(std::move(task));
      EXPECT_EQ(ran_on.get_wait(pool), node);
    }
  Async<int> anywhere;
  AsyncTask task = where(anywhere.write());
  task.set_preferred_numa_node(7);  // that this machine has not
  pool.schedule(std::move(task));
  EXPECT_GE(anywhere.get_wait(pool), 0);
}

TEST_F(Requirement, V46_NodeInfoSaysAddressTypeAndIndex) {
  const Async<double> first = 1.0;
  const Async<std::vector<int>> second;
  EXPECT_NE(first.info().address, nullptr);
  EXPECT_NE(first.info().address, second.info().address);
  EXPECT_EQ(first.info().type, "double");
  EXPECT_THAT(second.info().type, HasSubstr("std::vector<int"));
  EXPECT_NE(first.info().index, second.info().index);
}

TEST_F(Requirement, V47_TheGraphOfTasksIsRecordedAsDotAndAsATrace) {
  begin_debug_dag();
  Async<int> a = 1, b;
  WriteBuffer<int> writer = a.write();
  schedule(copy(a.read(), b.write()));
  scheduler.run_one();
  writer.get() = 2;
  writer.release();
  b.get_wait();
  end_debug_dag();
  Async<int> unrecorded = a;
  scheduler.run_all();
  const DebugDag dag = debug_dag();
  const std::string value_a = fmt::format("v{}_1", a.info().index),
                    value_b = fmt::format("v{}_1", b.info().index);
  EXPECT_THAT(dag.dot, AllOf(HasSubstr("digraph"), ContainsRegex(value_a + " -> t[0-9]+;"),
                             ContainsRegex("t[0-9]+ -> " + value_b + ";"), HasSubstr("(copy)"),
                             HasSubstr("woken 1 times"), HasSubstr("\\nint\\n")));
  EXPECT_THAT(dag.dot, Not(HasSubstr(fmt::format("v{}_", unrecorded.info().index))));
  const auto trace = nlohmann::json::parse(dag.trace);
  std::map<std::string, int> events;
  for (const auto& event : trace.at("traceEvents")) ++events[event.at("ph")];
  EXPECT_EQ(events["B"], 2);  // until it waits, and from then on
  EXPECT_EQ(events["E"], 2);
  EXPECT_EQ(events["s"], 1);
  EXPECT_EQ(events["f"], 1);
  EXPECT_GE(events["i"], 3);
}

TEST_F(Requirement, V48_ProgramsNeedNeitherThreadsNorLocks) {
  for (const auto& each : all_schedulers()) {
    const ScopedScheduler inner{*each};
    // The Fibonacci numbers, and their sum, as a sequential program has them.
    Async<std::uint64_t> a = std::uint64_t{0}, b = std::uint64_t{1}, sum = std::uint64_t{0};
    for (int i = 0; i < 80; ++i) {
      sum += a;
      Async<std::uint64_t> next = a + b;
      a = std::move(b);
      b = std::move(next);
    }
    EXPECT_EQ(sum.get_wait(), 37889062373143906U - 1);
  }
}

TEST(Pool, SaysWhichTasksArePendingWhenItEnds) {
  Async<int> value, result;
  WriteBuffer<int> writer = value.write();
  ::testing::internal::CaptureStderr();
  {
    Pool pool{{.workers = 2}};
    pool.schedule(copy(value.read(), result.write()));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("ended while 1 tasks waited"), HasSubstr("(copy)"),
                    HasSubstr(fmt::format("value {} (int)", value.info().index))));
  DebugScheduler scheduler;
  EXPECT_THAT([&] { result.get_wait(scheduler); },
              ThrowsMessage<TaskCancelled>(HasSubstr("ended")));
  writer.get() = 1;
}

TEST(Pool, WorkersThatWaitRunOthers) {
  Pool pool{{.workers = 1}};
  const ScopedScheduler scoped{pool};
  Async<int> inner, outer;
  schedule([](Async<int>* value, WriteBuffer<int> out) -> AsyncTask {
    schedule(assign(value->write(), 5));
    co_await out = value->get_wait();
  }(&inner, outer.write()));
  EXPECT_EQ(outer.get_wait(), 5);
}

TEST(Pool, RefusesNonsense) {
  EXPECT_THAT([] { Pool{{.workers = -1}}; }, ThrowsMessage<InvalidArgument>(HasSubstr("-1")));
}

TEST(Schedulers, TasksStayWithTheirs) {
  Pool pool{{.workers = 1}};
  DebugScheduler debug;
  Async<int> value;
  Async<std::thread::id> on_pool, on_debug;
  WriteBuffer<int> writer = value.write();
  const auto where_resumed = [](ReadBuffer<int> in, WriteBuffer<std::thread::id> out) -> AsyncTask {
    co_await in;
    co_await out = std::this_thread::get_id();
  };
  pool.schedule(where_resumed(value.read(), on_pool.write()));
  debug.schedule(where_resumed(value.read(), on_debug.write()));
  pool.schedule(assign(std::move(writer), 1));
  EXPECT_EQ(on_debug.get_wait(debug), std::this_thread::get_id());
  EXPECT_NE(on_pool.get_wait(pool), std::this_thread::get_id());
}

/// Tasks that block their threads until as many have begun.
class TimedLatch {
 public:
  explicit TimedLatch(int tasks) : missing_(tasks) {}
  bool pass() {
    std::unique_lock lock{mutex_};
    if (--missing_ == 0) all_.notify_all();
    return all_.wait_for(lock, std::chrono::seconds{60}, [this] { return missing_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  int missing_;
};

AsyncTask pass(TimedLatch* latch, WriteBuffer<bool> passed) {
  co_await passed = latch->pass();
}

TEST(Schedulers, TasksThatBlockTheirThreadsHoldNoOthersUp) {
  constexpr int workers = 3;
  Pool pool{{.workers = workers}};
  const ScopedScheduler scoped{pool};
  std::mt19937 random;
  for (int round = 0; round < 200; ++round) {
    TimedLatch latch{workers};
    std::array<Async<bool>, workers> passed;
    for (auto& one : passed) {
      for (auto pause = random() % 3000; pause > 0; --pause)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      schedule(pass(&latch, one.write()));
    }
    for (auto& one : passed) ASSERT_TRUE(one.get_wait()) << "round " << round;
  }
}

/// Pages that this process has in memory.
long resident_pages() {
  std::ifstream statm{"/proc/self/statm"};
  long total = 0, resident = 0;
  statm >> total >> resident;
  return resident;
}

TEST(Schedulers, MemoryDoesNotGrowWithTheNumberOfTasks) {
  const int tasks = std::getenv("CAPSTAN_MANY_TASKS") ? 1'000'000 : 100'000;
  for (const auto& each : all_schedulers()) {
    const ScopedScheduler scoped{*each};
    TaskLimit limit{*each, 64};
    Async<int> value = 0, other;
    const auto run = [&](int count) {
      for (int i = 0; i < count; ++i) {
        limit.schedule(add(value.mutate(), 1));
        limit.schedule(copy(value.read(), other.write()));
      }
      EXPECT_NE(other.get_wait(), 0);
    };
    run(5000);
    const long before = resident_pages();
    run(tasks / 2);
    EXPECT_TRUE(sanitized || resident_pages() - before < 1024) << before;
    EXPECT_EQ(value.get_wait(), 5000 + tasks / 2);
  }
}

}  // namespace
}  // namespace capstan::values
