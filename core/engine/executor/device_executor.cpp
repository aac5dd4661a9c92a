// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/device_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/platform/device/at_place.hpp"

namespace capstan {

using kernels::device::ProgramArguments;

DeviceExecutor::DeviceExecutor(Peers& peers, DeviceWords& words, DeviceKernels& kernels,
                               const DeviceBuffer& where)
    : peers_(peers), words_(words), kernels_(kernels), where_(where), probe_(where), log_(peers) {}

/// A captured call has no number: words say nothing about it, and the program orders its launches.
DeviceExecutor::Events DeviceExecutor::launch(DevicePlan& plan, const void* input, void* output,
                                              const Launch& how) {
  Events events;
  if (!how.captured) {
    events.ended = events_->take(where_, how.timed);
    if (how.timed) events.begins = events_->take(where_, true);
    if (last_ && finished_ < launched_) last_->hold_up(how.stream);
    if (events.begins) events.begins->record(how.stream);
  }
  copy_program(plan, how);
  ProgramArguments arguments = plan.arguments;
  arguments.input = static_cast<std::byte*>(const_cast<void*>(input));
  arguments.output = static_cast<std::byte*>(output);
  if (how.captured) {
    plan.captured = true;
    arguments.progress = nullptr;
  } else {
    arguments.number = plan.last = ++launched_;
  }
  kernels_.run(plan.kernel, arguments, plan.lanes, how.stream);
  if (how.captured) return events;
  events.ended->record(how.stream);
  last_ = events.ended;
  moved_ = Clock::now();
  return events;
}

/// The program is copied ahead of the first kernel. A graph copies it in each replay, and what is
/// captured has not run yet.
void DeviceExecutor::copy_program(DevicePlan& plan, const Launch& how) const {
  if (plan.is_there) return;
  at_place(where_, "starting a copy", [&](DeviceDriver& driver) {
    return driver.start_copy(DeviceDriver::Direction::to_device, plan.program.device,
                             plan.program.host, plan.program.size.value(), how.stream);
  });
  plan.is_there = !how.captured;
}

namespace {

std::uint64_t lanes_of(const Plan& plan, const DeviceWords& words) {
  return std::min<std::uint64_t>(plan.blocks, static_cast<std::uint64_t>(words.lanes()));
}

}  // namespace

bool DeviceExecutor::start(const Plan& plan, const void* /*input*/, void* /*output*/) {
  const std::uint64_t number = finished_ + 1;
  if (!words_.has_begun(number) && !words_.has_ended(number, lanes_of(plan, words_))) return false;
  plan_ = &plan;
  ++progress_;
  moved_ = Clock::now();
  log_.begin(plan.mark, plan.digest, nullptr);
  return true;
}

bool DeviceExecutor::advance() {
  if (!plan_) return true;
  if (!words_.has_ended(finished_ + 1, lanes_of(*plan_, words_))) return false;
  plan_ = nullptr;
  ++progress_;
  moved_ = Clock::now();
  ++finished_;
  publish_end();
  return true;
}

void DeviceExecutor::publish_end() {
  Finished& finished = peers_.own_control().finished;
  log_.end(finished);
  finished.blocks.store(log_.call(), std::memory_order_release);
  for (const Rank peer : peers_.mapped()) {
    log_.compare(peer, peers_.control(peer).finished);
    log_.compare(peer);
  }
}

Executor::Report DeviceExecutor::report() const {
  if (!plan_)
    return {.position =
                expects_replays_ ? "a graph that may be replayed" : "kernels that have not begun",
            .awaited = {},
            .kind = Wait::Kind::kernel,
            .needed_blocks = log_.call() + 1};
  return {
      .position = fmt::format("the kernel of {} (call {})", to_string(plan_->mark), log_.call()),
      .awaited = awaited(),
      .kind = Wait::Kind::kernel,
      .needed_blocks = log_.call(),
      .call = log_.call(),
      .mark = plan_->mark};
}

/// The peers whose kernels have not begun; where all have, those whose kernels have not ended.
std::vector<Rank> DeviceExecutor::awaited() const {
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

/// Where kernels take long, their device may be lost.
void DeviceExecutor::compare_calls() {
  if (plan_) log_.compare_all();
  const bool runs = finished_ < launched_;
  if (runs && Clock::now() - moved_.load() > std::chrono::seconds{1}) probe_.look();
}

}  // namespace capstan
