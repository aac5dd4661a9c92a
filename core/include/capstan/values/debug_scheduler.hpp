// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <random>

#include "capstan/export.hpp"
#include "capstan/values/scheduler.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// Runs tasks on the thread that calls run_all() or waits, one after another, in an order that
/// depends only on the program and the seed. Finds deadlocks. Only schedule() and the end of a wait
/// may be called on other threads.
class DebugScheduler final : public Scheduler {
 public:
  /// Which of the tasks that are ready runs next: the one that has been ready for longest, for
  /// shortest, or any, by the seed. A program that is right is right in every order.
  enum class Order { forwards, backwards, shuffled };

  explicit DebugScheduler(Order order = Order::forwards, std::uint64_t seed = 0);
  ~DebugScheduler() override;

  /// Runs one task until it waits or ends. False if none is ready.
  bool run_one();
  /// Runs until every task has ended. Throws Deadlock when tasks are left that wait for what no
  /// task or operation will do; throws like wait_all().
  void run_all();

  /// Runs tasks until the buffer is ready. Throws Deadlock when it cannot become ready.
  void wait(BufferBase& buffer) override;

 protected:
  void enqueue(TaskPromise& task, bool woken) override;
  void run_until_idle() override;
  bool is_idle() const override;

 private:
  TaskPromise* next();
  bool run_or_sleep();

  const Order order_;
  std::mt19937_64 random_;
  mutable detail::SpinLock lock_;
  std::deque<TaskPromise*> ready_;
  bool sleeping_ = false;
  std::mutex sleep_mutex_;
  std::condition_variable woken_;
  std::atomic<bool> running_{false};
  const Registration registration_{*this};
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
