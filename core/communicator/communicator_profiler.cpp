// SPDX-License-Identifier: Apache-2.0

// Communicators that profilers are attached to.

#include <algorithm>
#include <string>
#include <vector>

#include "capstan/observe/profiler.hpp"
#include "core/communicator/communicator_prepared.hpp"
#include "core/engine/executor/step_log.hpp"
#include "core/engine/run/call_observer.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/plan_cache.hpp"

namespace capstan {
namespace {

using Time = std::chrono::steady_clock::time_point;

Time time(std::int64_t nanoseconds) {
  return Time{std::chrono::nanoseconds{nanoseconds}};
}

std::string_view name_of(const RecordedStep& step) {
  if (!step.code) return "slot";
  switch (*step.code) {
    case OpCode::gather:
      return step.sources == 1 ? "copy" : "reduce";
    case OpCode::push:
      return "push";
    case OpCode::flush:
      return "flush";
    case OpCode::signal:
      return "signal";
    case OpCode::wait:
      return "wait";
    case OpCode::notify:
      break;
  }
  return "notify";
}

StepMeasurement measurement_of(const RecordedStep& step) {
  const bool moves = step.code && has_operands(*step.code);
  return {.step = name_of(step),
          .peer = step.peer ? step.peer->value() : -1,
          .bytes = moves ? step.bytes : Bytes{},
          .block = step.block,
          .number = step.step,
          .began = time(step.began),
          .ended = time(step.ended)};
}

constexpr std::size_t most_steps_of_call = 1 << 16;

/// Records the calls of a communicator.
class RecordedCalls final : public CallObserver {
 public:
  RecordedCalls(Profiler profiler, const Engine& engine, std::string tag)
      : profiler_(std::move(profiler)),
        ranks_(engine.size()),
        rank_(engine.world_ranks()[Rank{engine.rank()}]),
        tag_(std::move(tag)),
        most_steps_(std::min(profiler_.step_capacity(), most_steps_of_call)),
        step_log_(most_steps_) {
    steps_.reserve(most_steps_);
  }

  StepLog* step_log() override { return most_steps_ > 0 ? &step_log_ : nullptr; }

  void ended(const CachedPlan& cached, std::int64_t began, std::int64_t ended,
             bool failed) noexcept override {
    const Plan& plan = cached.plan;
    steps_.clear();
    for (const RecordedStep& step : step_log_.steps()) steps_.push_back(measurement_of(step));
    profiler_.record({.operation = capstan::name_of(plan.call.collective),
                      .bytes = cached.extent,
                      .began = time(began),
                      .ended = time(ended),
                      .ranks = ranks_,
                      .algorithm = plan.algorithm->name,
                      .rank = rank_,
                      .tag = tag_,
                      .failed = failed},
                     steps_);
  }

 private:
  Profiler profiler_;
  const int ranks_, rank_;
  const std::string tag_;
  const std::size_t most_steps_;
  StepLog step_log_;
  std::vector<StepMeasurement> steps_;  // of a call, with room for all that the log holds
};

}  // namespace

void Communicator::attach(const Profiler& profiler, const std::string& tag) {
  Impl::of(*this).streams.attach(profiler, tag);
  Engine& engine = Impl::of(*this).engine;
  engine.observe(profiler.enabled() ? std::make_shared<RecordedCalls>(profiler, engine, tag)
                                    : nullptr);
}

void Communicator::detach_profiler() {
  Impl::of(*this).streams.attach(Profiler{false}, {});
  Impl::of(*this).engine.observe(nullptr);
}

}  // namespace capstan
