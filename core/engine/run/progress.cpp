// SPDX-License-Identifier: Apache-2.0

// Operations of a rank that move on.

#include <sched.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/executor/accumulating.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/progress_turn.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {

using namespace std::chrono_literals;

Progress::Progress(std::shared_ptr<Transport> bell, Options options)
    : bell_(std::move(bell)),
      options_(std::move(options)),
      waits_(*bell_, options_.self, options_.processes, options_.timeout) {}

Progress::~Progress() = default;

void Progress::become_child() noexcept {
  threaded_.store(false, std::memory_order_relaxed);
  kept_ = weak_from_this().lock();
}

void Progress::add(Engine& engine) {
  const Lock lock{*this};
  engines_.push_back(&engine);
}

bool Progress::remove(Engine& engine) {
  const Lock lock{*this};
  std::erase(engines_, &engine);
  return engines_.empty();
}

bool Progress::poll(Turn* turn) {
  bool moved = false;
  {
    const Lock lock{*this};
    const int busy = count_busy();
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (!engines_[i]->busy()) continue;
      engines_[i]->share_core(busy > 1 || core_.is_shared());
      moved |= engines_[i]->poll();
    }
    moved |= has_ended_.load(std::memory_order_relaxed);
  }
  announce(turn);
  if (mutex_.is_awaited()) sched_yield();
  return moved;
}

/// The engines that are busy with what peers wake this rank for. Of the others, how they are to be
/// polled while nothing moves.
int Progress::count_busy() {
  int awaiting = 0, elsewhere = 0;
  std::chrono::nanoseconds longest = longest_sleep.load();
  for (const Engine* engine : engines_) {
    if (!engine->busy()) continue;
    ++(engine->sleeps_at_once() ? elsewhere : awaiting);
    longest = std::min(longest, engine->longest_sleep());
  }
  longest_now_.store(longest, std::memory_order_relaxed);
  sleeps_at_once_.store(elsewhere > 0 && awaiting == 0, std::memory_order_relaxed);
  return awaiting;
}

/// All engines receive what has arrived, whatever they wait for: peers may need that to continue.
/// Done only where poll() finds nothing, after it has looked thousands of times.
bool Progress::serve(Turn* turn) {
  bool moved = false;
  {
    const Lock lock{*this};
    progress_world();
    for (std::size_t i = 0; i < engines_.size(); ++i) moved |= engines_[i]->serve();
  }
  announce(turn);
  return moved;
}

bool Progress::busy() const {
  return std::ranges::any_of(engines_, [](const Engine* engine) { return engine->busy(); });
}

bool Progress::idle() {
  const Lock lock{*this};
  return !busy();
}

Progress::Clock::time_point Progress::check(Turn* turn) {
  const auto now = Clock::now();
  {
    const Lock lock{*this};
    progress_world();
    waits_.look(now);
    for (std::size_t i = 0; i < engines_.size(); ++i)
      if (engines_[i]->busy()) engines_[i]->check(now);
    tell(now);
  }
  announce(turn);
  const auto end = Clock::now();
  return end + std::max<Clock::duration>(check_interval, 9 * (end - now));
}

void Progress::progress_world() {
  try {
    bell_->progress();
  } catch (const Error&) {  // the engine that it concerns meets it again
  }
}

/// Tells the ranks of the world what the operations of all communicators of this rank wait for.
void Progress::tell(Clock::time_point now) {
  Wait all = forming_;
  for (const Engine* engine : engines_) capstan::add(all, engine->wait(now));
  if (all.kind == Wait::Kind::none) return waits_.withdraw();
  try {
    waits_.tell(all, now);
  } catch (const Error&) {  // of a peer that cannot be told; the engine that it concerns meets it
  }
  tells_waits_.store(true, std::memory_order_relaxed);
}

/// Most groups are formed before the thread has anything to tell; they are formed without it where
/// the system grants none, as peers already wait for this rank.
Progress::Forming::Forming(Progress& progress, std::vector<Rank> members)
    : progress_(progress), began_(Clock::now()) {
  std::erase(members, progress.options_.self);
  std::ranges::sort(members);
  Wait wait{.kind = Wait::Kind::form, .peer_count = static_cast<int>(members.size())};
  members.resize(std::min(members.size(), Wait::most_peers));
  wait.peers = std::move(members);
  try {
    thread_ = start_thread("forming a group", [this, wait](const std::stop_token& stop) {
      std::unique_lock lock{mutex_};
      while (!changed_.wait_for(lock, stop, progress_.waits_.beat_interval(),
                                [&] { return stop.stop_requested(); })) {
        Wait longer = wait;
        longer.waited =
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began_);
        progress_.tell(longer);
      }
    });
  } catch (const SystemError&) {  // of no thread
  }
}

Progress::Forming::~Forming() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  progress_.tell(Wait{});
}

void Progress::tell(const Wait& wait) {
  const Lock lock{*this};
  forming_ = wait;
  tell(Clock::now());
  progress_world();
}

/// Nobody moves operations on now: what has been told about them no longer holds.
void Progress::stop_telling() {
  if (!tells_waits_.load(std::memory_order_relaxed)) return;
  const Lock lock{*this};
  tells_waits_.store(false, std::memory_order_relaxed);
  waits_.withdraw();
}

void Progress::ended(std::shared_ptr<Operation> operation, std::exception_ptr error,
                     const std::optional<MessageInfo>& message) {
  if (!operation) return;
  auto callbacks = operation->settle(std::move(error), message);
  if (callbacks.empty())
    forgotten_.push_back(std::move(operation));
  else
    ended_.push_back({std::move(operation), std::move(callbacks)});
  has_ended_.store(true, std::memory_order_relaxed);
}

/// The next operation with callbacks. Forgets those without. The thread on which one has ended
/// calls it, and others find it where they see it.
std::optional<Progress::Ended> Progress::next_ended() {
  std::vector<std::shared_ptr<Operation>> forgotten;
  std::optional<Ended> next;
  if (!has_ended_.load(std::memory_order_relaxed)) return next;
  {
    const Lock lock{*this};
    forgotten.swap(forgotten_);
    if (!ended_.empty()) {
      next = std::move(ended_.front());
      ended_.pop_front();
    }
    has_ended_.store(!ended_.empty(), std::memory_order_relaxed);
  }
  if (forgotten.empty()) return next;
  forgotten.clear();
  const Lock lock{*this};
  if (forgotten_.empty()) forgotten_.swap(forgotten);
  return next;
}

/// One by one: a callback may wait for what the next one starts, which another thread, or a wait in
/// the callback, then calls.
void Progress::announce(Turn* turn) {
  while (const auto ended = next_ended()) {
    const Turn::Away away{turn};
    const CallingBack amid_a_call;
    for (const auto& callback : ended->callbacks) callback(*ended->operation);
    if (is_inherited()) return;  // a callback has forked: the parent continues
  }
}

void Progress::announce_silently() {
  while (next_ended()) {
  }
}

/// Sleeps until a peer has news; true if something has moved meanwhile.
bool Progress::sleep(std::chrono::nanoseconds at_most, Turn* turn) {
  const std::unique_lock role{sleeping_, std::try_to_lock};
  if (!role) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(at_most, 100us));
    return false;
  }
  bell_->prepare_to_sleep();
  if (poll(turn) || serve(turn)) {
    bell_->cancel_sleep();
    return true;
  }
  const auto began = Clock::now();
  bell_->sleep(at_most);
  if (at_most >= longest_sleep.load() && Clock::now() - began >= at_most) ++sleeps_that_ran_out;
  return false;
}

bool Progress::drive(const std::function<bool()>& done, Deadline deadline) {
  const bool finished = [&] {
    Turn turn{*this, Turn::Of::caller};
    Backoff backoff{*this, turn};
    while (!done()) {
      if (left_at_exit_) [[unlikely]]
        await_exit();
      if (poll(&turn)) {
        backoff.reset();
        continue;
      }
      if (done()) break;
      if (deadline.expired()) {
        if (backoff.ends_early()) return false;
        serve_caller(&turn);
        return done();
      }
      serve(&turn);
      backoff.pause(deadline);
    }
    return true;
  }();
  stop_telling();
  there_is_work();  // the progress thread has left the work to this caller
  return finished;
}

void Progress::advance() {
  if (left_at_exit_) [[unlikely]]
    await_exit();
  if (!poll(nullptr)) serve_caller(nullptr);
}

/// A caller may ask in a loop instead of waiting: it checks peers and the time now and then.
void Progress::serve_caller(Turn* turn) {
  serve(turn);
  const auto now = Clock::now();
  if (now > check_due_.load()) {
    check_due_ = now + check_interval;  // other callers continue meanwhile
    check_due_ = check(turn);
  }
  if (options_.oversubscribed || core_.is_shared(now)) core_.yield(now);  // callers ask in a loop
}

bool Progress::cancel(Operation& operation) {
  bool detached = false;
  {
    const Lock lock{*this};
    for (std::size_t i = 0; i < engines_.size() && !detached; ++i)
      detached = engines_[i]->detach(operation);
  }
  if (detached) operation.cancelled();
  return detached;
}

}  // namespace capstan
