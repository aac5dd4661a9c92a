// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/polled_driver.hpp"

#include <fmt/format.h>

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
  return Work{operation};
}

void PolledDriver::close(const std::string& reason) {
  std::jthread thread;
  std::list<Pending> pending;
  {
    const std::lock_guard lock{mutex_};
    thread = std::move(thread_);
    pending.swap(pending_);
  }
  thread.request_stop();
  if (thread.get_id() == std::this_thread::get_id()) thread.detach();
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
  for (; const auto ended = next_ended(); any = true)
    ended->error ? ended->operation->fail(ended->error)
                 : ended->operation->complete(ended->message);
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
  if (thread_.joinable()) return;
  thread_ = std::jthread{[self = shared_from_this()](const std::stop_token& stop) {
    self->drive([&] { return stop.stop_requested(); }, Deadline::never());
  }};
}

void PolledDriver::require_own_process() const {
  if (process_ != ::getpid())
    throw InvalidArgument(fmt::format(
        "{}: this process was forked from process {}, to which the backend belongs: make one here",
        options_.owner, process_));
}

}  // namespace capstan
