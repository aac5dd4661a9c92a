// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/values/buffers.hpp"
#include "capstan/values/scheduler.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

namespace detail {

/// Wakes a task when several waits are over.
class Countdown {
 public:
  Countdown(TaskPromise& task, int waits) : task_(task), left_(waits) {}
  /// True for the last one.
  bool one_is_over() { return left_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  void wake() { task_.wake(); }

 private:
  TaskPromise& task_;
  std::atomic<int> left_;
};

/// One buffer of several that a task waits for.
class BufferWait : Waiter {
 public:
  BufferWait() = default;
  BufferWait(const BufferWait&) = delete;
  BufferWait& operator=(const BufferWait&) = delete;
  ~BufferWait() {
    if (buffer_ && buffer_->valid()) buffer_->queue().stop_waiting(*buffer_->epoch_, *this);
  }
  /// False if the buffer is ready.
  bool begin(BufferBase& buffer, Countdown& countdown);
  void over() { buffer_ = nullptr; }

 private:
  BufferBase* buffer_ = nullptr;
  Countdown* countdown_ = nullptr;
};

template <std::size_t n>
struct AllBuffers {
  std::array<BufferBase*, n> buffers;
  std::array<BufferWait, n> waits{};
  std::unique_ptr<Countdown> countdown{};

  bool await_ready() const {
    for (const BufferBase* buffer : buffers)
      if (!buffer->is_ready()) return false;
    return true;
  }
  bool await_suspend(AsyncTask::Handle handle) {
    TaskPromise& task = handle.promise().root();
    // One more, so that the task is not resumed while it is being suspended.
    countdown = std::make_unique<Countdown>(task, static_cast<int>(n) + 1);
    return task.suspend(nullptr, nullptr, Access::read, [this](Waiter&) { return begin(); });
  }
  bool begin() {
    for (std::size_t i = 0; i < n; ++i)
      if (!waits[i].begin(*buffers[i], *countdown)) (void)countdown->one_is_over();
    return !countdown->one_is_over();
  }
  void await_resume() {
    for (BufferWait& wait : waits) wait.over();
  }
};

/// Several tasks that run side by side.
class AllTasks {
 public:
  explicit AllTasks(std::vector<AsyncTask> tasks) : tasks_(std::move(tasks)) {}
  AllTasks(const AllTasks&) = delete;
  AllTasks& operator=(const AllTasks&) = delete;
  ~AllTasks();
  bool await_ready() const { return tasks_.empty(); }
  bool await_suspend(AsyncTask::Handle task);
  void await_resume() const;

 private:
  struct State;
  static AsyncTask run(AsyncTask task, std::shared_ptr<State> state, std::size_t index);
  std::vector<AsyncTask> tasks_;
  std::shared_ptr<State> state_;
};

/// Something to await whose awaiter cannot be moved.
template <class Make>
struct MakesAwaiter {
  Make make;
  auto operator co_await() && { return make(); }
};
template <class Make>
MakesAwaiter(Make) -> MakesAwaiter<Make>;

}  // namespace detail

/// `co_await when_all(a, b, c)` continues when these buffers, which are variables, are all ready;
/// their values are then a.get() and so on.
template <detail::Buffer... Buffers>
auto when_all(Buffers&... buffers) {
  return detail::MakesAwaiter{[all = std::array<BufferBase*, sizeof...(Buffers)>{&buffers...}] {
    return detail::AllBuffers<sizeof...(Buffers)>{all};
  }};
}

/// `co_await when_all(std::move(tasks))` schedules these tasks on the scheduler of the awaiting
/// one, and continues when all have ended. Throws the exception of the first, in the order of the
/// vector, that failed.
inline auto when_all(std::vector<AsyncTask> tasks) {
  return detail::MakesAwaiter{
      [all = std::move(tasks)]() mutable { return detail::AllTasks{std::move(all)}; }};
}

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
