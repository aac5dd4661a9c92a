// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/scheduler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <condition_variable>
#include <cstdio>

#include "capstan/values/pool.hpp"
#include "core/extras/values/current.hpp"
#include "core/extras/values/recorder.hpp"

namespace capstan::values {
namespace {

/// All schedulers that exist.
struct Registry {
  std::mutex mutex;
  std::vector<const Scheduler*> schedulers;
};

Registry& registry() {
  static auto* const all = new Registry;  // is used while static objects are destroyed
  return *all;
}

/// A thread that waits for a buffer.
struct BlockedThread : detail::Waiter {
  std::mutex mutex;
  std::condition_variable woken;
  bool ready = false;

  BlockedThread() {
    Waiter::wake = [](detail::Waiter& waiter) {
      auto& thread = static_cast<BlockedThread&>(waiter);
      const std::scoped_lock lock{thread.mutex};
      thread.ready = true;
      thread.woken.notify_one();
    };
  }
  void wait() {
    std::unique_lock lock{mutex};
    woken.wait(lock, [this] { return ready; });
  }
};

std::exception_ptr cancellation(TaskPromise& task, const char* reason) {
  return std::make_exception_ptr(TaskCancelled(fmt::format("{}: {}", reason, task.describe())));
}

}  // namespace

void Scheduler::schedule(AsyncTask task) {
  task.check_unscheduled("scheduled");
  TaskPromise& promise = *std::exchange(task.promise_, nullptr);
  promise.scheduled_ = true;
  promise.scheduler_ = this;
  enqueue(promise, false);
}

void Scheduler::run(TaskPromise& task) {
  detail::Current& current = detail::current();
  const detail::Current outer = std::exchange(current, {&task, task.scheduler_, nullptr, {}});
  detail::Recorder* const recorder = detail::recording();
  const std::uint64_t index = task.index();
  if (recorder) [[unlikely]]
    recorder->run_begins(index, task.leaf_->where_);
  if (task.cancelled_.load(std::memory_order_acquire)) [[unlikely]] {
    task.error_ = cancellation(task, "cancelled before it had written");
    task.finish();
  } else {
    std::coroutine_handle<> next = task.leaf_->handle();
    do next.resume();
    while ((next = std::exchange(current.next, nullptr)));
  }
  if (recorder) [[unlikely]]
    recorder->run_ends(index);
  current = outer;
}

void Scheduler::wait_all() {
  run_until_idle();
  std::exception_ptr error;
  {
    const std::scoped_lock lock{error_mutex_};
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

const Scheduler::Parked& Scheduler::parked_for(const TaskPromise& task) const {
  return parked_[(reinterpret_cast<std::uintptr_t>(&task) >> 7) % parked_.size()];
}

void Scheduler::park(TaskPromise& task) {
  auto& parked = const_cast<Parked&>(parked_for(task));
  const std::scoped_lock lock{parked.lock};
  task.parked_ = true;
  task.earlier_ = nullptr;
  task.later_ = std::exchange(parked.first, &task);
  if (task.later_) task.later_->earlier_ = &task;
}

bool Scheduler::unpark(TaskPromise& task) {
  auto& parked = const_cast<Parked&>(parked_for(task));
  const std::scoped_lock lock{parked.lock};
  return take(parked, task);
}

/// With the lock held.
bool Scheduler::take(Parked& parked, TaskPromise& task) {
  if (!std::exchange(task.parked_, false)) return false;
  (task.earlier_ ? task.earlier_->later_ : parked.first) = task.later_;
  if (task.later_) task.later_->earlier_ = task.earlier_;
  task.waits_for_ = {};
  return true;
}

/// The task passes from one list to the other under one lock, so that it can't be missed.
void Scheduler::wake(TaskPromise& task) {
  auto& parked = const_cast<Parked&>(parked_for(task));
  const std::scoped_lock lock{parked.lock};
  if (!take(parked, task)) return;
  if (detail::Recorder* const active = detail::recording()) [[unlikely]]
    active->woken(task.index());
  enqueue(task, true);
}

bool Scheduler::cancel_one() {
  for (Parked& parked : parked_) {
    TaskPromise* task;
    {
      const std::scoped_lock lock{parked.lock};
      task = parked.first;
      if (task) take(parked, *task);
    }
    if (!task) continue;
    task->error_ = cancellation(*task, "its scheduler ended while it waited");
    task->finish();
    return true;
  }
  return false;
}

std::vector<std::string> Scheduler::pending() const {
  // The lock of a value is taken before that of a list, so values are described without the latter.
  // What a task waits for may change meanwhile: then the text is of the moment before.
  std::vector<std::string> lines;
  for (const Parked& parked : parked_) {
    std::vector<AsyncTask> tasks;
    {
      const std::scoped_lock lock{parked.lock};
      for (TaskPromise* task = parked.first; task; task = task->later_) {
        task->owners_.fetch_add(1, std::memory_order_relaxed);
        tasks.push_back(AsyncTask{*task});
      }
    }
    for (const AsyncTask& task : tasks) lines.push_back(task.describe());
  }
  return lines;
}

void Scheduler::report_pending() const {
  const auto lines = pending();
  if (lines.empty()) return;
  std::fputs(
      fmt::format("capstan: a scheduler of async values ended while {} tasks waited, which are "
                  "cancelled; wait for their values before:\n  {}\n",
                  lines.size(), fmt::join(lines, "\n  "))
          .c_str(),
      stderr);
}

void Scheduler::report_unreceived() noexcept try {
  if (error_) std::rethrow_exception(error_);
} catch (const std::exception& error) {
  std::fputs(fmt::format("capstan: a task failed, and no value or wait_all() received it: {}\n",
                         error.what())
                 .c_str(),
             stderr);
}

void Scheduler::receive_nobodys(std::exception_ptr error) {
  const std::scoped_lock lock{error_mutex_};
  if (!error_) error_ = std::move(error);
}

bool Scheduler::others_are_busy() const {
  if (operations() > 0) return true;
  const std::scoped_lock lock{registry().mutex};
  return std::ranges::any_of(registry().schedulers, [this](const Scheduler* other) {
    return other != this && (other->operations() > 0 || !other->is_idle());
  });
}

std::string Scheduler::describe_deadlock() const {
  const auto lines = pending();
  return fmt::format(
      "nothing can run, and {} tasks wait. Release buffers as soon as they are not needed, take "
      "them "
      "in the order in which they are awaited, and hold none outside of tasks:\n  {}",
      lines.size(), fmt::join(lines, "\n  "));
}

void Scheduler::block(BufferBase& buffer) {
  BlockedThread thread;
  if (buffer.queue_->wait(*buffer.epoch_, buffer.access_, thread)) thread.wait();
}

Scheduler::Registration::Registration(const Scheduler& scheduler) : scheduler_(scheduler) {
  const std::scoped_lock lock{registry().mutex};
  registry().schedulers.push_back(&scheduler_);
}

Scheduler::Registration::~Registration() {
  const std::scoped_lock lock{registry().mutex};
  std::erase(registry().schedulers, &scheduler_);
}

Scheduler& default_scheduler() {
  static Pool& pool = *new Pool;  // never destroyed, as tasks may run until the process ends
  return pool;
}

Scheduler& current_scheduler() {
  Scheduler* const scheduler = detail::current().scheduler;
  return scheduler ? *scheduler : default_scheduler();
}

ScopedScheduler::ScopedScheduler(Scheduler& scheduler)
    : outer_(std::exchange(detail::current().scheduler, &scheduler)) {}

ScopedScheduler::~ScopedScheduler() {
  detail::current().scheduler = outer_;
}

namespace detail {

struct WorkAwaiter::Link {
  std::mutex mutex;
  TaskPromise* task;

  explicit Link(TaskPromise& waiting) : task(&waiting) {}
  void leave(bool wake) {
    const std::scoped_lock lock{mutex};
    if (!task) return;
    Scheduler& scheduler = task->scheduler();
    if (wake) task->wake();
    task = nullptr;
    scheduler.operations_.fetch_sub(1, std::memory_order_acq_rel);
  }
};

void WorkAwaiter::await_suspend(std::coroutine_handle<TaskPromise> coroutine) {
  TaskPromise& task = coroutine.promise().root();
  const auto link = link_ = std::make_shared<Link>(task);
  const Work work = work_;  // the task, and with it this object, may be gone before the end
  work.ensure_progress();
  task.scheduler().operations_.fetch_add(1, std::memory_order_acq_rel);
  task.suspend(nullptr, nullptr, Access::read, [&](Waiter&) {
    work.on_complete([link](const Work&) { link->leave(true); });
    return true;
  });
}

WorkAwaiter::~WorkAwaiter() {
  if (link_) link_->leave(false);
  if (work_.valid() && !work_.has_ended()) work_.withdraw();
}

}  // namespace detail
}  // namespace capstan::values
