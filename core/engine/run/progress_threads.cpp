// SPDX-License-Identifier: Apache-2.0

// Threads that progress operations, and how they take turns.

#include <sched.h>

#include <algorithm>
#include <utility>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/progress_turn.hpp"
#include "core/platform/net/limits.hpp"
#include "core/platform/net/log.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

// A rank with a core of its own spins for long before it yields: another program on that core would
// keep it for milliseconds, while all ranks wait.
constexpr auto spin_before_yield = 1ms;
constexpr auto yield_before_sleep = 2ms;
// When two threads wait at once, each may end the operation that the other waits for.
constexpr auto longest_sleep_among_several = 1ms;
/// Time that callbacks may take before another thread progresses operations.
constexpr auto longest_turn_of_callbacks = 10ms;
/// Time that exit() may take before threads that it has left in calls get an error.
constexpr auto longest_exit = 5s;
/// Time that callbacks on progress threads may take when the process exits.
constexpr auto longest_callback_at_exit = 1s;

/// Lets this thread run only while others on its core have nothing to do. Otherwise the system lets
/// a thread that wakes up take the core from the one that woke it: a call that starts an operation
/// would return when the operation has ended.
// measured: docs/lab-notebook.md#a-progress-thread-that-waits
void give_way_to_others() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;  // the program has decided
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace

Progress::Turn::Turn(Progress& progress, Of of) : progress_(progress), of_(of) {
  if (of == Of::caller) ++progress_.drivers_;
}

Progress::Turn::~Turn() {
  if (held_ && of_ == Of::caller) --progress_.drivers_;
}

void Progress::Turn::give_up() {
  held_ = false;
  if (of_ == Of::caller) --progress_.drivers_;
  if (!progress_.has_thread()) return;
  const Lock lock{progress_};
  if (of_ == Of::thread) progress_.led_ = false;
  progress_.pass_turn_on();
}

void Progress::Turn::take_again() {
  if (of_ == Of::caller) {
    ++progress_.drivers_;
    held_ = true;
  } else {
    const Lock lock{progress_};
    held_ = !progress_.led_;
    progress_.led_ = true;
  }
}

Progress::Turn::Away::Away(Turn* turn) : turn_(turn) {
  if (turn_) turn_->give_up();
}

/// A callback may have forked: the child's only thread has no turn.
Progress::Turn::Away::~Away() {
  if (turn_ && !turn_->progress_.is_inherited()) turn_->take_again();
}

bool Progress::Backoff::ends_early() {
  if (check_due_ == Clock::time_point{}) return false;
  progress_.due_after_slice_ = progress_.tells_waits_ ? Clock::now() : check_due_;
  return true;
}

void Progress::Backoff::pause(Deadline deadline) {
  const auto now = Clock::now();
  if (since_ == Clock::time_point{}) since_ = now;
  if (check_due_ == Clock::time_point{}) {
    const auto due = progress_.due_after_slice_.exchange({});
    check_due_ = due == Clock::time_point{} ? now + check_interval : due;
  }
  if (now > check_due_) check_due_ = progress_.check(&turn_);
  if (now - since_ > yield_before_sleep || progress_.sleeps_at_once_) {
    const std::chrono::nanoseconds alone = progress_.longest_now_;
    const auto several = progress_.drivers_.load() > 1;
    const auto most =
        several ? std::min<std::chrono::nanoseconds>(alone, longest_sleep_among_several) : alone;
    if (progress_.sleep(std::min<std::chrono::nanoseconds>(most, deadline.remaining()), &turn_))
      reset();
  } else if (progress_.options_.oversubscribed || progress_.core_.is_shared(now) ||
             now - since_ > spin_before_yield) {
    progress_.core_.yield(now);
  }
}

void Progress::ensure_progress() {
  require_own_process();
  if (has_thread()) return;
  mutex_.share();
  const Lock lock{*this};
  if (has_thread()) return;
  add_thread();
  threaded_.store(true, std::memory_order_relaxed);
}

bool Progress::ensure_overlap() {
  require_own_process();
  const bool free_core = options_.free_core || !options_.thread_processors.empty();
  static std::atomic<bool> said = false;
  if (!free_core && !has_thread() && !said.exchange(true))
    log().warn(
        "no core is free for a progress thread beside the ranks of this host: a computation that "
        "keeps its core busy hides no communication; start fewer ranks, or bind each to one core");
  if (!options_.oversubscribed) ensure_progress();
  return free_core;
}

/// Under the lock.
void Progress::add_thread() {
  threads_.push_back(start_thread("progress", [self = shared_from_this()] { self->run_thread(); }));
  ++threads_running_;
}

void Progress::there_is_work() {
  if (!has_thread()) return;
  {
    const Lock lock{*this};
    if (!needs_leader()) return;
    if (threads_waiting_ == 0) add_thread_beside_callbacks();
  }
  work_.notify_one();
}

/// Under the lock.
bool Progress::needs_leader() const {
  return !led_ && drivers_ == 0 && busy() && !stop_.stop_requested();
}

void Progress::add_thread_beside_callbacks() {
  try {
    add_thread();
  } catch (const SystemError& error) {
    log().warn("{}; operations move on when a callback has ended", error.what());
  }
}

/// Under the lock: callbacks begin on a thread that has had its turn. Most are brief, and waking
/// another thread takes longer. So waiting threads look by themselves from now on; an operation
/// that a callback starts wakes one at once.
// measured: docs/lab-notebook.md#callbacks-that-wait
void Progress::pass_turn_on() {
  if (!needs_leader()) return;
  if (threads_waiting_ == 0) add_thread_beside_callbacks();
  if (!std::exchange(threads_look_, true)) work_.notify_all();
}

void Progress::run_thread() {
  if (!options_.thread_processors.empty()) bind_this_thread(options_.thread_processors);
  if (!options_.free_core && options_.thread_processors.empty()) give_way_to_others();
  bool leads = false;
  while (!stop_.stop_requested() && !is_inherited()) {
    std::unique_lock lock{mutex_.plain()};
    if (leads) led_ = false;
    ++threads_waiting_;
    while (!stop_.stop_requested() && !needs_leader())
      threads_look_ ? static_cast<void>(work_.wait_for(lock, longest_turn_of_callbacks))
                    : work_.wait(lock);
    --threads_waiting_;
    if (stop_.stop_requested()) break;
    led_ = true;
    lock.unlock();
    leads = lead();
  }
  --threads_running_;
}

/// Moves operations on while no caller does. False: another progress thread leads now.
bool Progress::lead() {
  Turn turn{*this, Turn::Of::thread};
  Backoff backoff{*this, turn};
  while (turn.held() && !stop_.stop_requested() && drivers_ == 0 && !is_inherited()) {
    if (poll(&turn)) {
      backoff.reset();
      continue;
    }
    if (idle()) break;
    serve(&turn);
    backoff.pause(Deadline::never());
  }
  if (turn.held()) stop_telling();
  return turn.held();
}

bool Progress::is_own_thread() const {
  return std::ranges::any_of(threads_, [](const std::jthread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

void Progress::stop_threads() {
  {
    const Lock lock{*this};
    stop_.request_stop();
  }
  work_.notify_all();
}

/// A callback on a progress thread may have dropped the last communicator.
void Progress::end_threads() {
  stop_threads();
  const bool is_own = is_own_thread();
  for (std::jthread& thread : threads_) is_own ? thread.detach() : thread.join();
}

void Progress::leave_at_exit() {
  {
    const Lock lock{*this};
    if (++left_engines_ < engines_.size()) return;
    exiting_thread_ = std::this_thread::get_id();
    left_at_exit_ = true;
  }
  if (!has_thread() || is_own_thread()) return;
  stop_threads();
  const Deadline longest = Deadline::in(longest_callback_at_exit);
  while (threads_running_ > 0 && !longest.expired()) std::this_thread::sleep_for(100us);
  if (threads_running_ > 0) return;
  for (std::jthread& thread : threads_) thread.join();
}

void Progress::await_exit() const {
  if (std::this_thread::get_id() != exiting_thread_) std::this_thread::sleep_for(longest_exit);
  throw Aborted("exit() has destroyed this communicator while this operation was pending");
}

}  // namespace capstan
