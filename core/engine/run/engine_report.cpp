// SPDX-License-Identifier: Apache-2.0

// Reports of the engine about itself and its peers: on demand, and of waits that last.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/engine/run/engine.hpp"
#include "core/engine/run/progress.hpp"
#include "core/platform/net/log.hpp"

namespace capstan {
namespace {

/// A wait that lasts for a tenth of the time-out, but not one that programs meet every day.
std::chrono::milliseconds suspicious(std::chrono::milliseconds timeout) {
  return std::max<std::chrono::milliseconds>(timeout / 10, std::chrono::seconds{10});
}

}  // namespace

/// Once for each such wait, by the lowest of the ranks that wait: one line for the whole job.
void Engine::warn_of_long_wait(Time now) {
  Wait own = wait(now);
  if (own.kind == Wait::Kind::none || own.waited < suspicious(settings_.timeout)) {
    has_warned_ = false;
    return;
  }
  const WaitBoard& waits = progress_->waits();
  const auto waits_too = [&](int rank) {
    return waits.seen(Rank{rank}).wait.kind != Wait::Kind::none;
  };
  const auto lower = std::views::iota(0, world_rank(self_).value());
  if (has_warned_ || std::ranges::any_of(lower, waits_too)) return;
  has_warned_ = true;
  const auto seconds = [](std::chrono::milliseconds time) { return time.count() / 1000.0; };
  const auto waited = seconds(own.waited);
  const Diagnosis diagnosis = diagnose(std::move(own), now);
  log().warn(
      "rank {} has waited {:.0f} of the {:g} s of CAPSTAN_TIMEOUT: {}: {}; `capstan ps {}` shows "
      "all "
      "ranks of this host",
      world_rank(self_).value(), waited, seconds(settings_.timeout), diagnosis.verdict(),
      diagnosis.advice(), ::getpid());
}

StateReport Engine::state_report() {
  const Progress::Lock lock{*progress_};
  const Time now = std::chrono::steady_clock::now();
  if (!failure_) receive_from_hosts();
  progress_->waits().look(now);
  StateReport report{.self = self_, .group = names_.of_group()};
  for (int rank = 0; rank < ranks_; ++rank)
    report.members.push_back(member_report(Rank{rank}, now));
  if (failure_) {
    report.failure = failure_->text;
    report.culprits = failure_->culprits;
    return report;
  }
  add_pending(report, now);
  if (Wait own = wait_anywhere(now); own.kind != Wait::Kind::none) {
    const Diagnosis diagnosis = diagnose(std::move(own), now);
    report.verdict = diagnosis.verdict();
    report.culprits = diagnosis.culprits();
  }
  return report;
}

StateReport::Member Engine::member_report(Rank rank, Time now) {
  const Rank in_world = world_rank(rank);
  const Control& control = rank == self_ ? peers_.own_control() : peers_.control(rank);
  StateReport::Member member{.rank = rank,
                             .world_rank = in_world,
                             .name = names_.full(in_world),
                             .process = progress_->waits().processes()[in_world],
                             .finished = control.finished.calls.load(std::memory_order_acquire)};
  for (const CallRecord& call : control.calls)
    member.begun = std::max(member.begun, call.call.load(std::memory_order_acquire));
  member.begun = std::max(member.begun, member.finished);
  if (rank == self_) {
    member.wait = wait_anywhere(now);
    return member;
  }
  RankView view = view_of(in_world, now);
  member.wait = std::move(view.wait);
  member.departed = std::move(view.departed);
  member.stopped = view.stopped;
  return member;
}

void Engine::add_pending(StateReport& report, Time now) const {
  for (const Task& task : tasks_) {
    const Call& call = task.known_call();
    report.pending.push_back({.text = to_string(call),
                              .collective = std::string{name_of(call.collective)},
                              .type = std::string{name_of(call.type)},
                              .input_bytes = task.input_bytes.value(),
                              .output_bytes = task.output_bytes.value()});
    if (&task != &tasks_.front() || !running_) continue;
    StateReport::Pending& running = report.pending.back();
    const Executor::Report state = executor().report();
    running.begun = true;
    running.position = state.position;
    running.number = state.call;
    running.peers = state.awaited;
    running.step = state.step, running.steps = state.steps;
    running.waited = std::chrono::duration_cast<std::chrono::milliseconds>(stalled_for(now));
  }
  for (const auto& [peer, transfer, began] : messages_.awaited()) {
    const Wait wait = message_wait(*transfer, peer, now - began);
    report.pending.push_back(
        {.text = to_string(wait),
         .begun = true,
         .peers = peer == any_source ? peers_.others() : std::vector{Rank{peer}},
         .waited = wait.waited,
         .collective = transfer->sends ? "send" : "recv",
         .input_bytes = transfer->sends ? transfer->size : 0,
         .output_bytes = transfer->sends ? 0 : transfer->size});
  }
}

}  // namespace capstan
