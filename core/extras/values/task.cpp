// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/task.hpp"

#include <fmt/format.h>

#include "capstan/values/scheduler.hpp"
#include "core/extras/values/current.hpp"
#include "core/extras/values/place.hpp"

namespace capstan::values {
namespace {

/// The current exception, with the task in which it began.
std::exception_ptr with_origin(std::uint64_t index, const std::source_location& where) {
  try {
    throw;
  } catch (const TaskFailed&) {
    return std::current_exception();
  } catch (const TaskCancelled&) {
    return std::current_exception();
  } catch (const std::exception& error) {
    return std::make_exception_ptr(TaskFailed(
        fmt::format("{} [task {} after {}]", error.what(), index, detail::place_of(where)),
        std::current_exception()));
  } catch (...) {
    return std::make_exception_ptr(
        TaskFailed(fmt::format("an exception of an unknown type [task {} after {}]", index,
                               detail::place_of(where)),
                   std::current_exception()));
  }
}

bool is_cancellation(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const TaskCancelled&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

namespace detail {

Current& current() {
  thread_local Current mine;
  return mine;
}

}  // namespace detail

namespace {

/// Symmetric transfer, which takes no stack. As compilers keep that promise only when they
/// optimize, it goes through the loop of Scheduler::run() where there is one.
std::coroutine_handle<> transfer(std::coroutine_handle<> to) {
  detail::Current& current = detail::current();
  if (!current.task) return to;
  current.next = to;
  return std::noop_coroutine();
}

}  // namespace

bool in_task() {
  return detail::current().task != nullptr;
}

TaskPromise::TaskPromise(int) : index_(detail::next_index()) {
  detail::Waiter::wake = [](detail::Waiter& waiter) { static_cast<TaskPromise&>(waiter).wake(); };
}

AsyncTask TaskPromise::get_return_object(const std::source_location& where) noexcept {
  where_ = where;
  return AsyncTask{*this};
}

void TaskPromise::note_buffer(BufferBase& buffer) {
  buffer.next_argument_ = std::exchange(buffers_, &buffer);
}

void TaskPromise::unhandled_exception() noexcept {
  error_ = with_origin(index_, where_);
  error_taken_ = !dropped_.empty();
  for (const detail::Dropped& dropped : std::exchange(dropped_, {}))
    dropped.queue->end_write(*dropped.epoch, dropped.waiter, detail::Outcome::failed, error_);
}

/// The exception that dropped them was caught.
void TaskPromise::settle_dropped() {
  for (const detail::Dropped& dropped : std::exchange(dropped_, {}))
    dropped.queue->end_write(*dropped.epoch, dropped.waiter, detail::Outcome::dropped);
}

void TaskPromise::park() {
  scheduler_->park(*this);
}

void TaskPromise::unpark() {
  scheduler_->unpark(*this);
}

void TaskPromise::wake() {
  TaskPromise& task = root();
  task.scheduler_->wake(task);
}

std::coroutine_handle<> TaskPromise::end() noexcept {
  if (!parent_) {
    finish();
    return std::noop_coroutine();
  }
  finished_.store(true, std::memory_order_release);
  root_->leaf_ = parent_;
  return transfer(parent_->handle());
}

/// The scheduler's part in a task that has ended, failed or been cancelled.
void TaskPromise::finish() noexcept {
  if (owners_.load(std::memory_order_acquire) == 1) {
    finished_.store(true, std::memory_order_relaxed);
    return destroy();
  }
  release_buffers();
  if (error_ && !std::exchange(error_taken_, true) && !is_cancellation(error_))
    scheduler_->receive_nobodys(error_);  // other owners may outlive the scheduler
  finished_.store(true, std::memory_order_release);
  drop();
}

void TaskPromise::drop() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
}

void TaskPromise::release_buffers() {
  detail::Cause cause{error_};
  detail::Cause*& slot = detail::current().cause;
  detail::Cause* const outer = std::exchange(slot, error_ ? &cause : nullptr);
  for (BufferBase* buffer = buffers_; buffer; buffer = buffer->next_argument_) buffer->release();
  slot = outer;
  error_taken_ |= cause.received;
}

void TaskPromise::destroy() noexcept {
  if (!error_) {
    detail::Cause* const outer = std::exchange(detail::current().cause, nullptr);
    handle().destroy();
    detail::current().cause = outer;
    return;
  }
  Scheduler* const scheduler = scheduler_;
  detail::Cause cause{error_, error_taken_};
  detail::Cause* const outer = std::exchange(detail::current().cause, &cause);
  handle().destroy();
  detail::current().cause = outer;
  if (!cause.received && scheduler && !is_cancellation(cause.error))
    scheduler->receive_nobodys(cause.error);
}

std::string TaskPromise::describe() {
  const TaskPromise& inner = *root().leaf_;
  std::string text = fmt::format("task {} at {}", index_, detail::place_of(inner.where_));
  if (waits_for_.epoch)
    text += fmt::format(" waits to {} {}",
                        waits_for_.access == EpochQueue::Access::read ? "read" : "write",
                        waits_for_.queue->describe(*waits_for_.epoch));
  for (BufferBase* buffer = buffers_; buffer; buffer = buffer->next_argument_)
    if (buffer->valid() && buffer->epoch_ != waits_for_.epoch)
      text += fmt::format("; holds the {}", buffer->describe());
  return text;
}

TaskPromise& AsyncTask::checked() const {
  if (!promise_)
    throw InvalidArgument("an AsyncTask was used that owns no coroutine: it was moved from");
  return *promise_;
}

void AsyncTask::check_unscheduled(const char* what) const {
  const TaskPromise& promise = checked();
  if (promise.scheduled_ || promise.parent_ || promise.finished_)
    throw InvalidArgument(fmt::format(
        "task {} cannot be {}: it was scheduled or awaited before. Make a new one by another call "
        "of the coroutine",
        promise.index(), what));
}

AsyncTask AsyncTask::share() const {
  TaskPromise& promise = checked();
  promise.owners_.fetch_add(1, std::memory_order_relaxed);
  return AsyncTask{promise};
}

AsyncTask AsyncTask::make_sole_owner(AsyncTask&& task) {
  AsyncTask taken = std::move(task);
  if (!taken) return {};
  // The count may fall meanwhile: who brings it to one is the sole owner.
  std::uint32_t owners = taken.promise_->owners_.load(std::memory_order_acquire);
  while (owners > 1)
    if (taken.promise_->owners_.compare_exchange_weak(owners, owners - 1,
                                                      std::memory_order_acq_rel)) {
      taken.promise_ = nullptr;
      return {};
    }
  return taken;
}

AsyncTask::Handle AsyncTask::release_handle() {
  if (!is_sole_owner())
    throw InvalidArgument(
        fmt::format("the handle of task {} cannot be released: the task has several owners. Drop "
                    "the others, or "
                    "use make_sole_owner()",
                    checked().index()));
  return std::exchange(promise_, nullptr)->handle();
}

void AsyncTask::reschedule(AsyncTask task) {
  if (!task.checked().scheduler_)
    throw InvalidArgument(
        fmt::format("task {} cannot be rescheduled: it has no scheduler yet. Use schedule()",
                    task.checked().index()));
  if (AsyncTask sole = make_sole_owner(std::move(task))) {
    TaskPromise& promise = *std::exchange(sole.promise_, nullptr);
    promise.scheduler_->enqueue(promise, false);
  }
}

void AsyncTask::yield(Handle suspended) {
  TaskPromise& root = suspended.promise().root();
  root.scheduler_->enqueue(root, false);
}

AsyncTask AsyncTask::take_over(Handle suspended) {
  TaskPromise& root = suspended.promise().root();
  root.waits_for_ = {};
  return AsyncTask{root};
}

std::coroutine_handle<> AsyncTask::begin_in(Handle parent) {
  TaskPromise& outer = parent.promise();
  promise_->parent_ = &outer;
  promise_->root_ = outer.root_;
  promise_->scheduled_ = true;
  outer.root_->leaf_ = promise_;
  return transfer(promise_->handle());
}

void AsyncTask::rethrow() {
  if (!promise_->error_) return;
  promise_->error_taken_ = true;
  std::rethrow_exception(promise_->error_);
}

}  // namespace capstan::values
