// SPDX-License-Identifier: Apache-2.0

// Tasks: who owns them, how they await each other, how they are cancelled, and where errors go.

#include <fmt/format.h>

#include "capstan/values/task_limit.hpp"
#include "tests/values/helpers.hpp"

namespace capstan::values {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Says when the frame of a coroutine goes.
struct Witness {
  explicit Witness(bool* flag) : gone(flag) {}
  Witness(Witness&& other) noexcept : gone(std::exchange(other.gone, nullptr)) {}
  ~Witness() {
    if (gone) *gone = true;
  }
  bool* gone;
};

AsyncTask count(int* runs, Witness = Witness{nullptr}) {
  ++*runs;
  co_return;
}

TEST_F(Requirement, V22_AnAsyncTaskIsTheOnlyOwnerOfACoroutineAndMoves) {
  static_assert(!std::is_copy_constructible_v<AsyncTask> &&
                std::is_nothrow_move_constructible_v<AsyncTask>);
  int runs = 0;
  bool gone = false;
  AsyncTask first = count(&runs, Witness{&gone});
  AsyncTask second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(second.is_sole_owner());
  EXPECT_EQ(runs, 0);  // it starts when it is scheduled
  second = AsyncTask{};
  EXPECT_TRUE(gone);
}

TEST_F(Requirement, V23_ASchedulerTakesOverATask) {
  int runs = 0;
  bool gone = false;
  AsyncTask task = count(&runs, Witness{&gone});
  scheduler.schedule(std::move(task));
  EXPECT_FALSE(task);  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(gone);
  scheduler.run_all();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(gone);
  EXPECT_THAT([&] { scheduler.schedule(AsyncTask{}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("owns no coroutine")));
}

AsyncTask inner(std::vector<std::string>* log, ReadBuffer<int> in) {
  log->push_back("inner begins");
  const int number = co_await in;
  log->push_back(fmt::format("inner has {}", number));
}
AsyncTask outer(std::vector<std::string>* log, ReadBuffer<int> in) {
  log->push_back("outer begins");
  co_await inner(log, std::move(in));
  log->push_back("outer ends");
}

TEST_F(Requirement, V24_AwaitingATaskRunsItAndGoesOnWhenItEnds) {
  std::vector<std::string> log;
  Async<int> value;
  WriteBuffer<int> later = value.write();
  schedule(outer(&log, value.read()));
  EXPECT_TRUE(scheduler.run_one());
  EXPECT_FALSE(scheduler.run_one());
  EXPECT_THAT(log, ElementsAre("outer begins", "inner begins"));
  schedule(assign(std::move(later), 6));
  scheduler.run_all();
  EXPECT_THAT(log, ElementsAre("outer begins", "inner begins", "inner has 6", "outer ends"));
}

AsyncTask await_many(int times, int* runs) {
  for (int i = 0; i < times; ++i) co_await count(runs);
}

TEST_F(Requirement, V24_AwaitingManyTasksInTurnTakesNoStack) {
  int runs = 0;
  schedule(await_many(200'000, &runs));
  scheduler.run_all();
  EXPECT_EQ(runs, 200'000);
}

TEST_F(Requirement, V25_OwnersAreCountedAndTheTaskSaysWhenItIsDone) {
  int runs = 0;
  bool gone = false;
  AsyncTask task = count(&runs, Witness{&gone});
  const AsyncTask observer = task.share();
  EXPECT_FALSE(task.is_sole_owner());
  schedule(std::move(task));
  EXPECT_FALSE(observer.done());
  scheduler.run_all();
  EXPECT_TRUE(observer.done());
  EXPECT_TRUE(observer.is_sole_owner());
  EXPECT_FALSE(gone);
}

AsyncTask yields(std::vector<std::string>* log, std::string name) {
  log->push_back(name + "1");
  co_await reschedule();
  log->push_back(name + "2");
}

TEST_F(Requirement, V26_RescheduleLetsOtherTasksRun) {
  std::vector<std::string> log;
  AsyncTask observed = yields(&log, "a");
  const AsyncTask observer = observed.share();
  schedule(std::move(observed));
  schedule(yields(&log, "b"));
  scheduler.run_all();
  EXPECT_THAT(log, ElementsAre("a1", "b1", "a2", "b2"));
}

/// Gives the suspended task away.
struct HandOver {
  AsyncTask* to;
  bool await_ready() const { return false; }
  void await_suspend(AsyncTask::Handle task) const { *to = AsyncTask::take_over(task); }
  void await_resume() const {}
};
AsyncTask hands_over(AsyncTask* to, int* stage) {
  *stage = 1;
  co_await HandOver{to};
  *stage = 2;
}

TEST_F(Requirement, V26_ASuspendedTaskGoesBackToItsSchedulerByItsLastOwner) {
  AsyncTask first;
  int stage = 0;
  schedule(hands_over(&first, &stage));
  scheduler.run_all();
  EXPECT_EQ(stage, 1);
  AsyncTask second = first.share();
  AsyncTask::reschedule(std::move(first));  // one of two that it waits for
  scheduler.run_all();
  EXPECT_EQ(stage, 1);
  AsyncTask::reschedule(std::move(second));
  scheduler.run_all();
  EXPECT_EQ(stage, 2);
  int runs = 0;
  EXPECT_THAT([&] { AsyncTask::reschedule(count(&runs)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("no scheduler yet")));
}

TEST_F(Requirement, V27_MakeSoleOwnerKeepsTheLastOwnerAndDropsOthers) {
  int runs = 0;
  AsyncTask first = count(&runs);
  AsyncTask second = first.share();
  EXPECT_FALSE(AsyncTask::make_sole_owner(std::move(first)));
  AsyncTask sole = AsyncTask::make_sole_owner(std::move(second));
  EXPECT_TRUE(sole.is_sole_owner());
  schedule(std::move(sole));
  scheduler.run_all();
  EXPECT_EQ(runs, 1);
}

TEST_F(Requirement, V28_ReleaseHandleIsForTheSoleOwner) {
  int runs = 0;
  AsyncTask task = count(&runs);
  {
    const AsyncTask other = task.share();
    EXPECT_THAT([&] { (void)task.release_handle(); },
                ThrowsMessage<InvalidArgument>(HasSubstr("several owners")));
  }
  const AsyncTask::Handle handle = task.release_handle();
  EXPECT_FALSE(task);
  handle.destroy();  // its caller's from now on
  EXPECT_EQ(runs, 0);
}

TEST_F(Requirement, V29_TheFrameGoesWithTheLastOwner) {
  int runs = 0;
  bool gone = false;
  AsyncTask first = count(&runs, Witness{&gone});
  AsyncTask second = first.share();
  first = AsyncTask{};
  EXPECT_FALSE(gone);
  second = AsyncTask{};
  EXPECT_TRUE(gone);
  EXPECT_EQ(runs, 0);
}

TEST_F(Requirement, V34_ATaskThatHasNotWrittenCanBeCancelledAndWrittenTakesThatBack) {
  for (const bool takes_back : {false, true}) {
    Async<int> in, out;
    WriteBuffer<int> writer = in.write();
    AsyncTask task = copy(in.read(), out.write());
    AsyncTask handle = task.share();
    schedule(std::move(task));
    EXPECT_TRUE(scheduler.run_one());
    handle.cancel_if_unwritten();
    if (takes_back) handle.written();
    schedule(assign(std::move(writer), 2));
    scheduler.run_all();
    EXPECT_TRUE(handle.done());
    if (takes_back)
      EXPECT_EQ(out.get_wait(), 2);
    else
      EXPECT_THAT([&] { out.get_wait(); }, ThrowsMessage<TaskCancelled>(HasSubstr("cancelled")));
  }
}

AsyncTask marks(ReadBuffer<int> in, WriteBuffer<int> out, std::vector<int>* log) {
  log->push_back(1);
  co_await in;
  log->push_back(2);
  co_await out = 3;
}

TEST_F(Requirement, V35_ACancelledTaskIsNotEnteredAgain) {
  Async<int> in, out;
  std::vector<int> log;
  WriteBuffer<int> writer = in.write();
  AsyncTask task = marks(in.read(), out.write(), &log);
  AsyncTask handle = task.share();
  schedule(std::move(task));
  scheduler.run_one();
  handle.cancel_if_unwritten();
  EXPECT_FALSE(handle.done());  // it learns of it when it is next resumed
  schedule(assign(std::move(writer), 1));
  scheduler.run_all();
  EXPECT_TRUE(handle.done());
  EXPECT_THAT(log, ElementsAre(1));
}

TEST_F(Requirement, V36_AfterACancellationReadersGetAnError) {
  Async<int> never_written, written = 1, depends;
  for (Async<int>* value : {&never_written, &written}) {
    AsyncTask task = assign(value->write(), 5);
    task.cancel_if_unwritten();
    schedule(std::move(task));
    schedule(copy(value->read(), depends.write()));
    EXPECT_THROW(value->get_wait(), TaskCancelled);
    EXPECT_THROW(depends.get_wait(), TaskCancelled);
  }
}

AsyncTask throws_between(WriteBuffer<int> out) {
  {
    WriteBuffer<int> local = std::move(out);
    co_await local = 1;  // half of what it writes
    throw std::runtime_error("no more");
  }
}
AsyncTask catches(ReadBuffer<int> in, WriteBuffer<std::string> out) {
  std::string text;
  try {
    co_await in;
  } catch (const TaskFailed& error) {
    text = error.what();
  }
  co_await out = text;
}

TEST_F(Requirement, V37_AnExceptionReachesEveryReaderAndSaysWhereItBegan) {
  Async<int> first, second, third;
  Async<std::string> text;
  schedule(fail(first.write(), "boom"));
  schedule(copy(first.read(), second.write()));
  schedule(copy(second.read(), third.write()));
  schedule(catches(second.read(), text.write()));
  const auto says = AllOf(HasSubstr("boom"), HasSubstr("helpers.hpp:"), HasSubstr("fail"));
  for (Async<int>* value : {&first, &second, &third})
    EXPECT_THAT([&] { value->get_wait(); }, ThrowsMessage<TaskFailed>(says));
  EXPECT_THAT(text.get_wait(), says);
  try {
    third.get_wait();
  } catch (const TaskFailed& error) {
    EXPECT_THAT([&] { std::rethrow_exception(error.cause()); },
                ThrowsMessage<std::runtime_error>(HasSubstr("boom")));
  }
}

TEST_F(Requirement, V37_AnExceptionAlsoReachesBuffersThatWereLocalVariables) {
  Async<int> value = 7;
  schedule(throws_between(value.write()));
  EXPECT_THAT([&] { value.get_wait(); }, ThrowsMessage<TaskFailed>(HasSubstr("no more")));
}

AsyncTask swallows(Async<int>* value) {
  try {
    WriteBuffer<int> local = value->write();
    co_await local = 1;
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {
  }
  co_await reschedule();
}

TEST_F(OnDebugScheduler, ABufferDroppedByACaughtExceptionIsNotWritten) {
  Async<int> value = 7;
  schedule(swallows(&value));
  scheduler.run_all();
  EXPECT_THROW(value.get_wait(), NotWritten);
}

AsyncTask awaits_failure(Async<int>* value, std::string* text) {
  try {
    co_await fail(value->write(), "inner");
  } catch (const TaskFailed& error) {
    *text = error.what();
  }
}

TEST_F(OnDebugScheduler, TheTaskThatAwaitsAFailedOneGetsItsException) {
  Async<int> value;
  std::string text;
  schedule(awaits_failure(&value, &text));
  scheduler.run_all();
  EXPECT_THAT(text, HasSubstr("inner"));
  EXPECT_THROW(value.get_wait(), TaskFailed);
}

AsyncTask throws_only(ReadBuffer<int> in) {
  const int number = co_await in;
  throw std::runtime_error(fmt::format("lost {}", number));
}

TEST_F(OnDebugScheduler, AnExceptionThatNoValueReceivesComesOutOfWaitAll) {
  Async<int> value = 3;
  schedule(throws_only(value.read()));
  try {
    scheduler.run_all();
    ADD_FAILURE();
  } catch (const TaskFailed& error) {
    EXPECT_THAT(error.what(), HasSubstr("lost 3"));
  }
  scheduler.run_all();
}

AsyncTask several(std::vector<AsyncTask> tasks, std::string* result) {
  try {
    co_await when_all(std::move(tasks));
    *result = "all";
  } catch (const std::exception& error) {
    *result = error.what();
  }
}

TEST_F(OnDebugScheduler, WhenAllRunsTasksSideBySideAndThrowsTheFirstError) {
  for (const bool fails : {false, true}) {
    Async<int> a, b, unused;
    std::vector<AsyncTask> tasks;
    tasks.push_back(copy(b.read(), a.write()));  // fails: b has not been written
    if (!fails) tasks[0] = assign(a.write(), 1);
    tasks.push_back(assign(b.write(), 2));
    std::string result;
    schedule(several(std::move(tasks), &result));
    scheduler.run_all();
    EXPECT_THAT(result, fails ? HasSubstr("no value in epoch 0") : HasSubstr("all"));
    EXPECT_EQ(b.get_wait(), 2);
  }
  std::string result;
  schedule(several({}, &result));
  scheduler.run_all();
  EXPECT_EQ(result, "all");
}

TEST_F(OnDebugScheduler, ATaskIsScheduledOrAwaitedOnce) {
  int runs = 0;
  AsyncTask task = count(&runs);
  AsyncTask again = task.share();
  schedule(std::move(task));
  EXPECT_THAT([&] { schedule(std::move(again)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("scheduled or awaited before")));
  scheduler.run_all();  // it uses `runs`
  EXPECT_EQ(runs, 1);
}

TEST_F(OnDebugScheduler, ALimitBoundsTheTasksInFlight) {
  int running = 0, most = 0;
  const auto task = [](int* now, int* maximum) -> AsyncTask {
    *maximum = std::max(*maximum, ++*now);
    for (int i = 0; i < 3; ++i) co_await reschedule();
    --*now;
  };
  TaskLimit limit{scheduler, 4};
  for (int i = 0; i < 100; ++i) limit.schedule(task(&running, &most));
  scheduler.run_all();
  EXPECT_EQ(most, 4);
  EXPECT_THROW((TaskLimit{scheduler, 0}), InvalidArgument);
}

}  // namespace
}  // namespace capstan::values
