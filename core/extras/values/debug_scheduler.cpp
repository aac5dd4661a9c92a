// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/debug_scheduler.hpp"

namespace capstan::values {
namespace {

/// How long a thread sleeps at most before it looks again whether others still work.
constexpr std::chrono::milliseconds look_again{5};

}  // namespace

DebugScheduler::DebugScheduler(Order order, std::uint64_t seed) : order_(order), random_(seed) {}

DebugScheduler::~DebugScheduler() {
  run_until_idle();
  end([this] { run_until_idle(); });
}

void DebugScheduler::enqueue(TaskPromise& task, bool) {
  bool sleeping;
  {
    const std::scoped_lock lock{lock_};
    ready_.push_back(&task);
    sleeping = sleeping_;
  }
  if (!sleeping) return;
  const std::scoped_lock lock{sleep_mutex_};
  woken_.notify_one();
}

TaskPromise* DebugScheduler::next() {
  const std::scoped_lock lock{lock_};
  if (ready_.empty()) return nullptr;
  if (order_ == Order::shuffled) std::swap(ready_.back(), ready_[random_() % ready_.size()]);
  TaskPromise*& place = order_ == Order::forwards ? ready_.front() : ready_.back();
  TaskPromise* const task = place;
  order_ == Order::forwards ? ready_.pop_front() : ready_.pop_back();
  return task;
}

bool DebugScheduler::run_one() {
  TaskPromise* const task = next();
  if (!task) return false;
  const bool outer = running_.exchange(true, std::memory_order_relaxed);
  run(*task);
  running_.store(outer, std::memory_order_relaxed);
  return true;
}

/// Runs a task, or sleeps for a moment while others work. False when nothing more can happen.
bool DebugScheduler::run_or_sleep() {
  if (run_one()) return true;
  if (!others_are_busy()) return run_one();  // they may have woken one before they were done
  std::unique_lock lock{sleep_mutex_};
  {
    const std::scoped_lock queue{lock_};
    sleeping_ = ready_.empty();
  }
  if (sleeping_) woken_.wait_for(lock, look_again);
  const std::scoped_lock queue{lock_};
  sleeping_ = false;
  return true;
}

void DebugScheduler::run_until_idle() {
  while (run_one() || operations() > 0) run_or_sleep();
}

void DebugScheduler::run_all() {
  while (run_or_sleep()) {
  }
  if (!pending().empty()) throw Deadlock(describe_deadlock());
  wait_all();
}

void DebugScheduler::wait(BufferBase& buffer) {
  while (!buffer.is_ready())
    if (!run_or_sleep() && !buffer.is_ready())
      throw Deadlock("the thread waits for the " + buffer.describe() + "; " + describe_deadlock());
}

bool DebugScheduler::is_idle() const {
  const std::scoped_lock lock{lock_};
  return ready_.empty() && !running_.load(std::memory_order_relaxed);
}

}  // namespace capstan::values
