// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/when_all.hpp"

#include <mutex>

namespace capstan::values::detail {

bool BufferWait::begin(BufferBase& buffer, Countdown& countdown) {
  buffer_ = &buffer;
  countdown_ = &countdown;
  Waiter::wake = [](Waiter& waiter) {
    Countdown& all = *static_cast<BufferWait&>(waiter).countdown_;
    if (all.one_is_over()) all.wake();
  };
  return buffer.queue().wait(*buffer.epoch_, buffer.access_, *this);
}

/// Outlives the task that waits, if that is cancelled.
struct AllTasks::State {
  std::mutex mutex;
  TaskPromise* waiting;
  std::size_t left;
  std::vector<std::exception_ptr> errors;

  State(TaskPromise& task, std::size_t tasks) : waiting(&task), left(tasks), errors(tasks) {}
  void one_is_over() {
    const std::scoped_lock lock{mutex};
    if (--left == 0 && waiting) std::exchange(waiting, nullptr)->wake();
  }
};

AllTasks::~AllTasks() {
  if (!state_) return;
  const std::scoped_lock lock{state_->mutex};
  state_->waiting = nullptr;
}

AsyncTask AllTasks::run(AsyncTask task, std::shared_ptr<State> state, std::size_t index) {
  try {
    co_await std::move(task);
  } catch (...) {
    state->errors[index] = std::current_exception();
  }
  state->one_is_over();
}

bool AllTasks::await_suspend(AsyncTask::Handle handle) {
  TaskPromise& task = handle.promise().root();
  state_ = std::make_shared<State>(task, tasks_.size());
  Scheduler& scheduler = task.scheduler();
  // This object may be gone when the last of them has been scheduled.
  std::vector<AsyncTask> runs;
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    runs.push_back(run(std::move(tasks_[i]), state_, i));
  return task.suspend(nullptr, nullptr, Access::read, [&](Waiter&) {
    for (AsyncTask& each : runs) scheduler.schedule(std::move(each));
    return true;
  });
}

void AllTasks::await_resume() const {
  if (!state_) return;
  for (const std::exception_ptr& error : state_->errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace capstan::values::detail
