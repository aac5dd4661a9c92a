// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <coroutine>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/values/epoch_queue.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

class AsyncTask;
class BufferBase;
class Scheduler;
class TaskPromise;
template <class T>
class ReadBuffer;
template <class T>
class MutableBuffer;
template <class T>
class WriteBuffer;
template <class T>
class EmplaceBuffer;

namespace detail {

// Not by the base class: the type of a lambda that is a coroutine is not complete when it is asked.
template <class T>
inline constexpr bool is_buffer = false;
template <class T>
inline constexpr bool is_buffer<ReadBuffer<T>> = true;
template <class T>
inline constexpr bool is_buffer<MutableBuffer<T>> = true;
template <class T>
inline constexpr bool is_buffer<WriteBuffer<T>> = true;
template <class T>
inline constexpr bool is_buffer<EmplaceBuffer<T>> = true;
template <class T>
concept Buffer = is_buffer<std::remove_cvref_t<T>>;

/// Awaits an operation of a communicator: the task is resumed by its scheduler, not on the thread
/// that moves the operation on. When the task is destroyed before, the operation is withdrawn.
class WorkAwaiter {
 public:
  explicit WorkAwaiter(Work work) : work_(std::move(work)) {}
  WorkAwaiter(const WorkAwaiter&) = delete;
  WorkAwaiter& operator=(const WorkAwaiter&) = delete;
  ~WorkAwaiter();
  bool await_ready() const { return work_.has_ended(); }
  void await_suspend(std::coroutine_handle<TaskPromise> task);
  void await_resume() const { work_.wait(); }

 private:
  struct Link;
  Work work_;
  std::shared_ptr<Link> link_;
};

/// A write buffer that was dropped while an exception was on its way through a task.
struct Dropped {
  EpochQueue* queue;
  Epoch* epoch;
  const Waiter* waiter;
};

}  // namespace detail

/// The state of a task besides its coroutine: its owners, its scheduler, its error. Programs use
/// AsyncTask.
class TaskPromise final : public detail::FromBlocks, private detail::Waiter {
 public:
  using Handle = std::coroutine_handle<TaskPromise>;

  /// From the arguments of the coroutine, as the compiler does it.
  template <class... Args>
  explicit TaskPromise(Args&... args) : TaskPromise(0) {
    (note(args), ...);
  }
  TaskPromise(const TaskPromise&) = delete;
  TaskPromise& operator=(const TaskPromise&) = delete;
  ~TaskPromise() = default;

  AsyncTask get_return_object(
      const std::source_location& where = std::source_location::current()) noexcept;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  auto final_suspend() noexcept {
    struct Awaiter {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(Handle ended) const noexcept {
        return ended.promise().end();
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{};
  }
  void return_void() { settle_dropped(); }
  void unhandled_exception() noexcept;

  /// Notes the line, and awaits: a Work through the scheduler, anything else as it is.
  template <class Awaited>
  decltype(auto) await_transform(
      Awaited&& awaited, const std::source_location& where = std::source_location::current()) {
    where_ = where;
    if (!dropped_.empty()) settle_dropped();
    if constexpr (std::same_as<std::remove_cvref_t<Awaited>, Work>)
      return detail::WorkAwaiter{std::forward<Awaited>(awaited)};
    else if constexpr (requires { std::forward<Awaited>(awaited).operator co_await(); })
      return std::forward<Awaited>(awaited).operator co_await();
    else
      return std::forward<Awaited>(awaited);  // g++ 12 copies it, unless it is made right here
  }

  /// Calls `first_try`, which registers this task somewhere or returns false to continue at once.
  /// Meanwhile the scheduler lists the task as waiting for `epoch` (null: for something else).
  template <class FirstTry>
  bool suspend(EpochQueue* queue, EpochQueue::Epoch* epoch, EpochQueue::Access access,
               FirstTry first_try) {
    TaskPromise& task = root();
    task.waits_for_ = {queue, epoch, access};
    task.park();
    if (first_try(static_cast<detail::Waiter&>(task))) return true;
    task.unpark();
    return false;
  }
  /// Continues a task that suspend() has suspended. Once for each suspend().
  void wake();

  Scheduler& scheduler() { return *root().scheduler_; }
  /// The outermost of the tasks that await each other, which is the one that a scheduler has.
  TaskPromise& root() { return *root_; }
  std::uint64_t index() const { return index_; }
  /// A text with the task's number, where it is, what it waits for and what it holds.
  std::string describe();
  std::optional<int> preferred_numa_node() const {
    return numa_node_ < 0 ? std::nullopt : std::optional{numa_node_};
  }

 private:
  friend class AsyncTask;
  friend class Scheduler;
  friend class detail::WorkAwaiter;
  friend class BufferBase;
  friend struct ReadyList;

  struct Awaited {
    EpochQueue* queue;
    EpochQueue::Epoch* epoch;
    EpochQueue::Access access;
  };

  explicit TaskPromise(int);
  template <class Arg>
  void note(Arg& arg) {
    if constexpr (detail::Buffer<Arg>) note_buffer(arg);
  }
  void note_buffer(BufferBase& buffer);
  void park();
  void unpark();
  void settle_dropped();
  std::coroutine_handle<> end() noexcept;
  void finish() noexcept;
  void drop() noexcept;
  void destroy() noexcept;
  void release_buffers();
  Handle handle() { return Handle::from_promise(*this); }

  Scheduler* scheduler_ = nullptr;
  TaskPromise* root_ = this;
  TaskPromise* leaf_ = this;  ///< of a root: the innermost of those that await each other
  TaskPromise* parent_ = nullptr;
  TaskPromise* earlier_ = nullptr;  ///< neighbours in the scheduler's list of waiting tasks
  TaskPromise* later_ = nullptr;
  BufferBase* buffers_ = nullptr;  ///< those among the arguments
  Awaited waits_for_{};
  std::source_location where_{};
  std::exception_ptr error_{};
  std::vector<detail::Dropped> dropped_{};
  std::uint64_t index_;
  std::atomic<std::uint32_t> owners_{1};
  int numa_node_ = -1;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> finished_{false};
  bool scheduled_ = false;
  bool parked_ = false;
  bool error_taken_ = false;
};

/// A coroutine that schedulers run: the return type of functions that co_await buffers, other tasks
/// or Works of a communicator. Made suspended; runs when it is scheduled or awaited.
///
///   AsyncTask scale(ReadBuffer<double> in, WriteBuffer<double> out) {
///     co_await out = 2 * co_await in;
///   }
///   schedule(scale(x.read(), y.write()));
///
/// Buffers are arguments by value, so that the coroutine keeps them; a reference is refused at
/// compile time. A coroutine that is a lambda captures nothing, as the closure may be gone when the
/// coroutine runs: pass what it needs as arguments.
///
/// Move-only. Owners are counted: share() makes another one. The coroutine's frame, with its local
/// variables, goes when the task has ended and the last owner is gone; its buffers are released at
/// its end at the latest. Destroying the last owner of a task that has not ended destroys the
/// frame: what the task was to write is then not written.
///
/// An exception that leaves the coroutine goes to all values that it was to write (as a
/// TaskFailed); to the task that awaits it; or, where there is neither, to Scheduler::wait_all().
///
/// Different objects may be used by different threads, also if they own the same coroutine.
class [[nodiscard]] AsyncTask {
 public:
  using promise_type = TaskPromise;
  using Handle = std::coroutine_handle<TaskPromise>;

  AsyncTask() noexcept = default;
  AsyncTask(AsyncTask&& other) noexcept : promise_(std::exchange(other.promise_, nullptr)) {}
  AsyncTask& operator=(AsyncTask&& other) noexcept {
    AsyncTask{std::move(other)}.swap(*this);
    return *this;
  }
  ~AsyncTask() { reset(); }

  /// Whether it owns a coroutine.
  explicit operator bool() const { return promise_ != nullptr; }
  /// Whether the coroutine has ended, been cancelled or failed.
  bool done() const { return !promise_ || promise_->finished_.load(std::memory_order_acquire); }

  /// One more owner of the same coroutine.
  AsyncTask share() const;
  bool is_sole_owner() const {
    return promise_ && promise_->owners_.load(std::memory_order_acquire) == 1;
  }
  /// `task` if it is the sole owner; else drops it and returns an empty task.
  static AsyncTask make_sole_owner(AsyncTask&& task);
  /// Gives the coroutine to the caller, who resumes and destroys it. Throws InvalidArgument unless
  /// this is the sole owner.
  [[nodiscard]] Handle release_handle();

  /// Hands a suspended task back to its scheduler. An owner of several is dropped instead, as in
  /// make_sole_owner(): of those that wait for different things the last one to come reschedules.
  /// Throws InvalidArgument for a task that was never scheduled.
  static void reschedule(AsyncTask task);
  /// For awaiters of one's own: takes over the task that has just been suspended, whose scheduler
  /// has forgotten it, until reschedule().
  static AsyncTask take_over(Handle suspended);
  /// For awaiters of one's own: puts a task that has just been suspended at the end of its
  /// scheduler's queue, however many owners it has.
  static void yield(Handle suspended);

  /// From now on the task is to be cancelled at its next resume: its body is not entered again, and
  /// what it was to write is a TaskCancelled. written() takes that back.
  void cancel_if_unwritten() { checked().cancelled_.store(true, std::memory_order_release); }
  void written() { checked().cancelled_.store(false, std::memory_order_release); }

  /// Schedulers that know of NUMA nodes run the task on this one, from when it is next scheduled or
  /// woken.
  std::optional<int> preferred_numa_node() const { return checked().preferred_numa_node(); }
  void set_preferred_numa_node(std::optional<int> node) {
    checked().numa_node_ = node.value_or(-1);
  }

  /// "task 7 at stencil.cpp:42 (void step(...))", and what it waits for and holds.
  std::string describe() const { return checked().describe(); }

  /// co_await std::move(task): runs it now, in the place of the awaiting task, which continues when
  /// it ends, and gets its exception. Throws InvalidArgument for a task that is empty, shared or
  /// scheduled.
  auto operator co_await() && {
    check_unscheduled("awaited");
    struct Awaiter {
      AsyncTask child;
      bool await_ready() const { return false; }
      std::coroutine_handle<> await_suspend(Handle parent) { return child.begin_in(parent); }
      void await_resume() { child.rethrow(); }
    };
    return Awaiter{std::move(*this)};
  }

 private:
  friend class TaskPromise;
  friend class Scheduler;

  explicit AsyncTask(TaskPromise& promise) : promise_(&promise) {}
  void swap(AsyncTask& other) noexcept { std::swap(promise_, other.promise_); }
  void reset() noexcept {
    if (TaskPromise* const promise = std::exchange(promise_, nullptr)) promise->drop();
  }
  TaskPromise& checked() const;
  void check_unscheduled(const char* what) const;
  std::coroutine_handle<> begin_in(Handle parent);
  void rethrow();

  TaskPromise* promise_ = nullptr;
};

/// Lets other tasks run: the task goes to the end of its scheduler's queue.
inline auto reschedule() {
  struct Awaiter {
    bool await_ready() const { return false; }
    void await_suspend(AsyncTask::Handle task) const { AsyncTask::yield(task); }
    void await_resume() const {}
  };
  return Awaiter{};
}

/// Whether this thread is running a task.
bool in_task();

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan

template <class... Args>
struct std::coroutine_traits<capstan::values::AsyncTask, Args...> {
  static_assert(!((std::is_reference_v<Args> && capstan::values::detail::Buffer<Args>) || ...),
                "a task takes its buffers by value: a reference may outlive what it refers to");
  using promise_type = capstan::values::TaskPromise;
};
