// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/values/buffers.hpp"
#include "capstan/values/task.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// Runs tasks that are ready; what is ready, epochs say. A task stays with the scheduler that it
/// was scheduled on: that one resumes it, whichever thread ends its wait.
///
/// DebugScheduler, Pool and TbbScheduler are the ones that there are. All public functions are
/// thread-safe unless one of these says otherwise. The destructor runs what is ready, waits for
/// operations that tasks await, then names tasks that still wait on standard error and cancels
/// them.
class Scheduler {
 public:
  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  virtual ~Scheduler() = default;

  /// Takes over a task, to be run from its beginning. Throws InvalidArgument for an empty task and
  /// for one that was scheduled before.
  void schedule(AsyncTask task);

  /// Returns when the buffer is ready, and runs tasks meanwhile where it can.
  virtual void wait(BufferBase& buffer) = 0;
  /// Returns when every task has ended or waits for something that no task of this scheduler will
  /// do. Throws the first exception that no value and no task received since the last call.
  void wait_all();
  /// A line for each task that waits now.
  std::vector<std::string> pending() const;

 protected:
  /// One task that is ready is put at the end of what is to be run, or, if it was woken, anywhere.
  /// Called by any thread, with locks held.
  virtual void enqueue(TaskPromise& task, bool woken) = 0;
  virtual void run_until_idle() = 0;
  /// Whether nothing is ready and nothing runs.
  virtual bool is_idle() const = 0;

  /// Continues a task. Afterwards it may be gone.
  static void run(TaskPromise& task);
  /// For the destructors of schedulers, when no thread runs their tasks any more: names and cancels
  /// tasks that wait. `run_ready` runs what becomes ready by that.
  template <class RunReady>
  void end(RunReady run_ready) {
    report_pending();
    do run_ready();
    while (cancel_one());
    report_unreceived();
  }
  /// Operations that tasks of this scheduler await.
  int operations() const { return operations_.load(std::memory_order_acquire); }
  /// Whether tasks of another scheduler, or operations, may still change anything here.
  bool others_are_busy() const;
  std::string describe_deadlock() const;
  /// Blocks this thread until the buffer is ready.
  static void block(BufferBase& buffer);

  /// While one exists: others_are_busy() of other schedulers asks this one.
  class Registration {
   public:
    explicit Registration(const Scheduler& scheduler);
    ~Registration();
    Registration(const Registration&) = delete;

   private:
    const Scheduler& scheduler_;
  };

 private:
  friend class TaskPromise;
  friend class AsyncTask;
  friend class detail::WorkAwaiter;

  struct alignas(64) Parked {
    mutable detail::SpinLock lock{};
    TaskPromise* first = nullptr;
  };
  const Parked& parked_for(const TaskPromise& task) const;
  void park(TaskPromise& task);
  /// False if the task is not in the list.
  bool unpark(TaskPromise& task);
  static bool take(Parked& parked, TaskPromise& task);
  void wake(TaskPromise& task);
  bool cancel_one();
  void report_pending() const;
  void report_unreceived() noexcept;
  void receive_nobodys(std::exception_ptr error);

  std::array<Parked, 8> parked_{};
  std::atomic<int> operations_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

/// The scheduler of the task that this thread runs, else the one of the innermost ScopedScheduler
/// of this thread, else default_scheduler().
Scheduler& current_scheduler();

/// A Pool with a worker for each core that this process may use. Made when it is first needed, and
/// ended with the process.
Scheduler& default_scheduler();

/// While it exists, tasks of this thread go to this scheduler.
class ScopedScheduler {
 public:
  explicit ScopedScheduler(Scheduler& scheduler);
  ~ScopedScheduler();
  ScopedScheduler(const ScopedScheduler&) = delete;
  ScopedScheduler& operator=(const ScopedScheduler&) = delete;

 private:
  Scheduler* outer_;
};

/// Hands a task to current_scheduler().
inline void schedule(AsyncTask task) {
  current_scheduler().schedule(std::move(task));
}

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
