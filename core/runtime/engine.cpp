#include "core/runtime/engine.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <new>

#include "core/ir/error.hpp"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// How a wait goes on: the executor looks for a while, then the core is yielded, then the rank
// sleeps until it is woken. Peers are looked after all the while. A rank with a core of its own is
// in no hurry to yield: what else runs there would keep the core for milliseconds, and all ranks
// wait.
constexpr int spins_alone = 4000, spins_sharing_a_core = 20;
constexpr auto spin_before_yield = 1ms;
constexpr auto yield_before_sleep = 2ms;
constexpr auto longest_sleep = 20ms;
constexpr auto departure_check_interval = 20ms;

// Plans kept; a program that never repeats a call does not fill the memory.
constexpr std::size_t most_plans = 1024;

Bytes chunk_of(const Placement& placement, const Settings& settings) {
  return settings.chunk > Bytes{0} ? settings.chunk : placement.chunk;
}

/// A block has one chunk for each rank.
Bytes block_bytes(int ranks, Bytes chunk) {
  constexpr Bytes largest{4 << 20};
  return std::min(chunk * static_cast<std::uint64_t>(ranks), largest);
}

}  // namespace

SegmentLayout segment_layout(int ranks, const Placement& placement, const Settings& settings) {
  if (ranks == 1) return {ranks, Bytes{0}};
  // Areas of a board start on cache lines: a little more than the block itself.
  const Bytes rounding = bytes_of(board_unit, Bytes{8}) * static_cast<std::uint64_t>(ranks + 1);
  return {ranks, block_bytes(ranks, chunk_of(placement, settings)) + rounding};
}

std::size_t Engine::CallHash::operator()(const Call& call) const {
  const CallMark mark = mark_of(call, {});
  return mark.digest();
}

Engine::Engine(std::unique_ptr<Transport> transport, Rank self, int ranks,
               const SegmentLayout& layout, const Placement& placement, const Settings& settings)
    : transport_(std::move(transport)),
      self_(self),
      ranks_(ranks),
      layout_(layout),
      placement_{placement.oversubscribed, chunk_of(placement, settings)},
      timeout_(settings.timeout),
      rules_(AlgorithmRules::parse(settings.algorithm)),
      executor_(*transport_, layout, self, ranks,
                placement.oversubscribed ? spins_sharing_a_core : spins_alone),
      watch_(*transport_, self, ranks) {}

Engine::~Engine() {
  control_of(transport_->segment().data()).left.store(1, std::memory_order_release);
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != self_.value()) transport_->wake(transport_->link(Rank{peer}));
}

Choice Engine::choice(const Call& call) const {
  return choose(call, ranks_, rules_);
}

const Plan& Engine::plan(const Call& call) {
  if (last_plan_ && last_plan_->call == call) return *last_plan_;
  if (plans_.size() >= most_plans) plans_.clear();
  auto& entry = plans_[call];
  if (!entry)
    entry = std::make_unique<const Plan>(make_plan(call, choice(call), ranks_, self_,
                                                   block_bytes(ranks_, placement_.chunk), layout_));
  return *(last_plan_ = entry.get());
}

void Engine::run(const Call& call, const void* input, void* output) {
  if (failure_) failure_->raise();
  executor_.start(plan(call), input, output);
  try {
    if (!executor_.advance()) wait_until_finished();
  } catch (const Error& error) {
    fail(Failure::of(error));
  }
}

void Engine::wait_until_finished() {
  auto stalled_since = Clock::now(), last_check = stalled_since;
  std::uint64_t progress = executor_.progress();
  bool finished = false;
  while (!finished && !(finished = executor_.advance())) {
    transport_->progress();
    const auto now = Clock::now();
    if (progress != executor_.progress()) {
      progress = executor_.progress();
      stalled_since = now;
    }
    const auto stalled = now - stalled_since;
    if (now - last_check > departure_check_interval) {
      last_check = now;
      watch_.check_aborts();
      watch_.check_departures(executor_.goal(), executor_.position());
      executor_.check_calls();
    }
    if (stalled > timeout_)
      throw TimedOut(fmt::format(
          "rank {} waited {} s in {}: the peer is alive but did not answer; see what it does "
          "instead, or raise CAPSTAN_TIMEOUT",
          self_.value(), std::chrono::duration<double>(timeout_).count(), executor_.position()));
    if (stalled > yield_before_sleep)
      sleep_unless_finished(finished);
    else if (placement_.oversubscribed || stalled > spin_before_yield)
      sched_yield();
  }
}

void Engine::sleep_unless_finished(bool& finished) {
  transport_->prepare_to_sleep();
  const std::uint64_t before = executor_.progress();
  try {
    finished = executor_.advance();
  } catch (...) {
    transport_->cancel_sleep();
    throw;
  }
  if (finished || executor_.progress() != before)
    transport_->cancel_sleep();
  else
    transport_->sleep(longest_sleep);
}

void Engine::fail(const Failure& failure) {
  failure_ = failure;
  publish(control_of(transport_->segment().data()).abort, failure);
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != self_.value()) transport_->wake(transport_->link(Rank{peer}));
  failure.raise();
}

}  // namespace capstan
