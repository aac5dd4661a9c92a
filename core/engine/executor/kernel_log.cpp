// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/kernel_log.hpp"

#include <fmt/format.h>

namespace capstan {

void KernelLog::begin(const CallMark& mark) {
  const std::lock_guard lock{mutex_};
  mark_ = mark;
  log_.begin(mark, mark.digest(), nullptr);
  since_ = std::chrono::steady_clock::now();
}

void KernelLog::end() {
  const std::lock_guard lock{mutex_};
  since_.reset();
  Finished& finished = peers_.own_control().finished;
  log_.end(finished);
  finished.blocks.store(log_.call(), std::memory_order_release);
  for (const Rank peer : peers_.mapped()) {
    log_.compare(peer, peers_.control(peer).finished);
    log_.compare(peer);
  }
}

void KernelLog::expect_replays() {
  const std::lock_guard lock{mutex_};
  expects_replays_ = true;
}

std::optional<KernelLog::Time> KernelLog::running_since() const {
  const std::lock_guard lock{mutex_};
  return since_;
}

bool KernelLog::needs_peers() const {
  const std::lock_guard lock{mutex_};
  return since_.has_value() || expects_replays_;
}

Executor::Report KernelLog::report() const {
  const std::lock_guard lock{mutex_};
  if (!since_)
    return {.position = "a graph that may be replayed",
            .awaited = {},
            .needed_blocks = log_.call() + 1};
  return {.position = fmt::format("the kernel of {} (call {})", to_string(mark_), log_.call()),
          .awaited = awaited(),
          .needed_blocks = log_.call(),
          .call = log_.call(),
          .mark = mark_};
}

/// The peers whose kernels have not begun; where all have, those whose kernels have not ended.
std::vector<Rank> KernelLog::awaited() const {
  std::vector<Rank> absent, running;
  for (const Rank peer : peers_.others()) {
    const Finished& theirs = peers_.control(peer).finished;
    if (!log_.has_entered(peer))
      absent.push_back(peer);
    else if (theirs.calls.load(std::memory_order_relaxed) < log_.call())
      running.push_back(peer);
  }
  return absent.empty() ? running : absent;
}

void KernelLog::compare_calls() {
  const std::lock_guard lock{mutex_};
  if (since_) log_.compare_all();
}

}  // namespace capstan
