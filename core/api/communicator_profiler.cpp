// Communicators that profilers are attached to.

#include <string>

#include "capstan/observe/profiler.hpp"
#include "core/api/communicator_prepared.hpp"
#include "core/engine/call_observer.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/plan_cache.hpp"

namespace capstan {
namespace {

/// Records the calls of a communicator.
class RecordedCalls final : public CallObserver {
 public:
  RecordedCalls(Profiler profiler, const Engine& engine, std::string tag)
      : profiler_(std::move(profiler)),
        ranks_(engine.size()),
        rank_(engine.world_ranks()[Rank{engine.rank()}]),
        tag_(std::move(tag)) {}

  void ended(const CachedPlan& cached, std::int64_t began, std::int64_t ended,
             bool failed) noexcept override {
    const Plan& plan = cached.plan;
    profiler_.record({.operation = name_of(plan.call.collective),
                      .bytes = cached.extent,
                      .began = time(began),
                      .ended = time(ended),
                      .ranks = ranks_,
                      .algorithm = plan.algorithm->name,
                      .rank = rank_,
                      .tag = tag_,
                      .failed = failed});
  }

 private:
  static std::chrono::steady_clock::time_point time(std::int64_t nanoseconds) {
    return std::chrono::steady_clock::time_point{std::chrono::nanoseconds{nanoseconds}};
  }

  Profiler profiler_;
  const int ranks_, rank_;
  const std::string tag_;
};

}  // namespace

void Communicator::attach(const Profiler& profiler, const std::string& tag) {
  Engine& engine = Impl::of(*this).engine;
  engine.observe(profiler.enabled() ? std::make_shared<RecordedCalls>(profiler, engine, tag)
                                    : nullptr);
}

void Communicator::detach_profiler() {
  Impl::of(*this).engine.observe(nullptr);
}

}  // namespace capstan
