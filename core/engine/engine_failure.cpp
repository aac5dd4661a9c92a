// How the engine notices that peers are gone, or do not come, and gives up.

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <thread>

#include "capstan/error.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/progress.hpp"
#include "core/net/limits.hpp"

namespace capstan {
namespace {

/// "rank 3", "ranks 1, 2 and 3".
std::string names_of(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "its peers";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += fmt::format("{}{}",
                        i == 0                  ? ""
                        : i + 1 == ranks.size() ? " and "
                                                : ", ",
                        ranks[i].value());
  return text;
}

}  // namespace

/// A rank checks its peers while it waits for them. A rank that never waits (the first of a chain)
/// would not learn that the others are gone. It therefore checks now and then between calls.
void Engine::check_peers() {
  calls_since_check_ = 0;
  try {
    receive_from_hosts();
    watchdog_.check_aborts();
    const Executor::Report report = executor_.report();
    watchdog_.check_departures(report.needed_blocks, report.position);
  } catch (const Error& error) {
    fail(Failure::of(error));
  }
}

void Engine::check(std::chrono::steady_clock::time_point now) {
  try {
    watchdog_.check_aborts();
    if (!tasks_.empty()) check_tasks(now);
    if (!messages_.idle())
      messages_.check(now, settings_.timeout, [this](Rank peer) { return departed(peer); });
  } catch (const Error& error) {
    fail(Failure::of(error));
  }
}

std::optional<std::string> Engine::departed(Rank peer) {
  if (peers_.control(peer).left.load(std::memory_order_acquire) != 0)
    return "it left the communicator";
  return transport_->departed(peer);
}

void Engine::check_tasks(std::chrono::steady_clock::time_point now) {
  if (executor_.progress() != seen_progress_ || stalled_since_ == decltype(stalled_since_){}) {
    seen_progress_ = executor_.progress();
    stalled_since_ = now;
  }
  const Executor::Report report = executor_.report();
  for (const Rank peer : report.awaited) transport_->watch(peer);
  watchdog_.check_departures(report.needed_blocks, report.position);
  executor_.compare_calls();
  if (now - stalled_since_ > settings_.timeout)
    throw TimedOut(fmt::format(
        "rank {} waited {} s for {} in {}: nothing came, though nothing says that it has ended; "
        "see what it does instead and whether its host can be reached, or raise CAPSTAN_TIMEOUT",
        self_.value(), std::chrono::duration<double>(settings_.timeout).count(),
        names_of(report.awaited), report.position));
}

/// The failure for the exception that is being handled. An exception that is not the library's own
/// comes from an operation of the program, or from a lack of memory. It leaves the call half done,
/// so the call fails on all ranks.
Failure Engine::current_failure() const {
  const auto in_call = [&](const char* text) {
    return Failure{Failure::Kind::aborted, Rank{},
                   fmt::format("rank {}: {}; this ended {} and the communicator", self_.value(),
                               text, executor_.report().position)};
  };
  try {
    throw;
  } catch (const Error& error) {
    return Failure::of(error);
  } catch (const std::bad_alloc&) {
    return in_call(out_of_memory("it got no memory").what());
  } catch (const std::exception& error) {
    return in_call(error.what());
  } catch (...) {
    return in_call("an exception of unknown type");
  }
}

void Engine::abort(const std::string& reason) {
  {
    const Progress::Lock lock{*progress_};
    if (failure_) return;
    fail({Failure::Kind::aborted, Rank{},
          fmt::format("rank {} aborted the communicator: {}", self_.value(), reason)});
  }
  push_out_failure();
  progress_->announce();
}

/// Sends the failure to other hosts: no later call of this rank may do that.
void Engine::push_out_failure() {
  constexpr std::chrono::milliseconds patience{100};  // a host that is gone takes nothing
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto is_out = [this] {
    const Progress::Lock lock{*progress_};
    serve();
    return std::ranges::all_of(peers_.posted(),
                               [this](Rank peer) { return transport_->pushed(peer); });
  };
  while (!is_out() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

std::optional<Failure> Engine::failure() {
  if (auto own = read(peers_.own_control().abort, peers_.count())) return own;
  if (auto theirs = watchdog_.failure_among(peers_.mapped())) return theirs;
  if (peers_.posted().empty()) return std::nullopt;
  const Progress::Lock lock{*progress_};
  serve();
  return watchdog_.failure_among(peers_.posted());
}

/// The first failure counts.
void Engine::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  if (progress_->is_inherited()) return;  // an operation of the program has forked
  publish(peers_.own_control().abort, failure);
  peers_.show_end();
  try {
    failure.raise();
  } catch (const Error&) {
    fail_all(std::current_exception());
  }
}

void Engine::fail_all(const std::exception_ptr& error) {
  if (std::exchange(running_, false) && !tasks_.empty() && tasks_.front().plan->timed)
    note_end(*tasks_.front().plan, true);
  executor_.withdraw_buffers();
  for (Task& task : std::exchange(tasks_, {})) report_end(task, error);
  messages_.fail_all(error);
}

}  // namespace capstan
