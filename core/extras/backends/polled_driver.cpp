// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/polled_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "capstan/backends/errors.hpp"

namespace capstan {
namespace {

/// Looks again at once for a while, and then ever less often.
class Backoff {
 public:
  void wait(Deadline deadline) {
    if (++looks_ < 100) return std::this_thread::yield();
    pause_ = std::min(pause_ * 2, most);
    std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(pause_, deadline.remaining()));
  }
  void reset() { *this = {}; }

 private:
  static constexpr std::chrono::microseconds most{500};
  int looks_ = 0;
  std::chrono::microseconds pause_{1};
};

}  // namespace

Work PolledDriver::start(std::string text, std::optional<Operation::Output> output,
                         std::unique_ptr<NativeOperation> progress, std::function<void()> finish) {
  auto operation = std::make_shared<Operation>(shared_from_this(), std::move(text), output);
  const std::lock_guard lock{mutex_};
  pending_.push_back(
      {operation, std::move(progress), std::move(finish), Deadline::in(options_.timeout)});
  if (!threads_.empty() && !leader_) hand_over();
  return Work{operation};
}

void PolledDriver::close(const std::string& reason) {
  std::vector<std::jthread> threads;
  std::list<Pending> pending;
  {
    const std::lock_guard lock{mutex_};
    stop_.request_stop();
    threads.swap(threads_);
    pending.swap(pending_);
  }
  const bool in_callback = std::ranges::any_of(threads, [](const std::jthread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
  if (in_callback)  // others may be in callbacks that wait for this one
    for (std::jthread& thread : threads) thread.detach();
  for (const Pending& each : pending)
    each.operation->fail(std::make_exception_ptr(
        Aborted(fmt::format("{}: {}: {}", options_.owner, each.operation->text(), reason))));
  keep_for_ever(std::move(pending));
}

void PolledDriver::keep_for_ever(std::list<Pending> pending) {
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::list<Pending>;
  const std::lock_guard lock{mutex};
  kept.splice(kept.end(), pending);
}

std::optional<PolledDriver::Ended> PolledDriver::test(Pending& pending) const {
  Ended ended{pending.operation, {}, nullptr, false};
  try {
    if (pending.progress->test()) {
      if (pending.finish) pending.finish();
      ended.message = pending.progress->message();
      return ended;
    }
    if (!pending.deadline.expired()) return {};
    ended.in_use = true;
    const std::string missing = pending.progress->missing();
    throw TimedOut(fmt::format("{}: {} has not ended within {}{}{}", options_.owner,
                               pending.operation->text(), pending.deadline.budget(),
                               missing.empty() ? "" : ": ", missing));
  } catch (...) {
    ended.error = std::current_exception();
  }
  return ended;
}

/// Tests all operations once. Whether one has ended.
bool PolledDriver::test_all() {
  {
    const std::lock_guard lock{mutex_};
    for (auto at = pending_.begin(); at != pending_.end();)
      if (auto ended = test(*at)) {
        ended_.push_back(std::move(*ended));
        const auto next = std::next(at);
        std::list<Pending> one;
        one.splice(one.end(), pending_, at);
        if (ended_.back().in_use) keep_for_ever(std::move(one));
        at = next;
      } else {
        ++at;
      }
  }
  return announce();
}

std::optional<PolledDriver::Ended> PolledDriver::next_ended() {
  const std::lock_guard lock{mutex_};
  if (ended_.empty()) return std::nullopt;
  auto next = std::move(ended_.front());
  ended_.pop_front();
  return next;
}

/// One by one: a callback may wait for the operation that ended next, which another thread, or the
/// wait in the callback, then announces.
bool PolledDriver::announce() {
  bool any = false;
  for (; const auto ended = next_ended(); any = true) {
    const auto callbacks = ended->operation->settle(ended->error, ended->message);
    if (callbacks.empty()) continue;
    {
      const std::lock_guard lock{mutex_};
      if (leader_ == std::this_thread::get_id()) leader_.reset();
      if (!leader_ && !threads_.empty() && has_work()) hand_over();
    }
    for (const auto& callback : callbacks) callback(*ended->operation);
    if (process_ != ::getpid()) return true;  // a callback has forked: the parent continues
  }
  return any;
}

bool PolledDriver::drive(const std::function<bool()>& done, Deadline deadline) {
  require_own_process();
  Backoff backoff;
  while (!done()) {
    if (test_all())
      backoff.reset();
    else if (deadline.expired())
      return done();
    else
      backoff.wait(deadline);
  }
  return true;
}

void PolledDriver::advance() {
  require_own_process();
  test_all();
}

void PolledDriver::ensure_progress() {
  require_own_process();
  if (!options_.no_thread.empty()) throw NotSupported(options_.owner, options_.no_thread);
  const std::lock_guard lock{mutex_};
  if (threads_.empty() && !stop_.stop_requested()) add_thread();
}

/// Under the lock.
void PolledDriver::add_thread() {
  threads_.emplace_back([self = shared_from_this()] { self->run_thread(); });
}

/// Under the lock: no thread tests operations, and one is to. Where the system gives no more
/// threads, that is one whose callback has ended.
void PolledDriver::hand_over() try {
  if (threads_waiting_ == 0 && !stop_.stop_requested()) add_thread();
  work_.notify_one();
} catch (const std::system_error&) {
}

void PolledDriver::run_thread() {
  const std::stop_token stop = stop_.get_token();
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    ++threads_waiting_;
    const bool called = work_.wait(lock, stop, [this] { return !leader_ && has_work(); });
    --threads_waiting_;
    if (!called) return;
    leader_ = std::this_thread::get_id();
    lock.unlock();
    lead();
    if (process_ != ::getpid()) return;
    lock.lock();
    if (leader_ == std::this_thread::get_id()) leader_.reset();
  }
}

/// Tests operations until there are none, or another thread does so, as this one has run callbacks.
void PolledDriver::lead() {
  const auto leads = [this] {
    const std::lock_guard lock{mutex_};
    return leader_ == std::this_thread::get_id() && has_work();
  };
  Backoff backoff;
  while (process_ == ::getpid() && leads() && !stop_.stop_requested()) {
    if (test_all())
      backoff.reset();
    else
      backoff.wait(Deadline::never());
  }
}

void PolledDriver::require_own_process() const {
  if (process_ != ::getpid())
    throw InvalidArgument(fmt::format(
        "{}: this process was forked from process {}, to which the backend belongs: make one here",
        options_.owner, process_));
}

}  // namespace capstan
