// SPDX-License-Identifier: Apache-2.0

// An engine whose tasks another executor runs: it is asked for each in turn, as far as it has come.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/world/world.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

/// Comes to a call, and ends it, when the test says so.
class TestedExecutor final : public Executor {
 public:
  struct State {
    int may_start = 0, may_end = 0;  ///< so many calls
    std::vector<const Plan*> started{};
    int ended = 0, withdrawn = 0;
  };
  explicit TestedExecutor(State& state) : state_(state) {}

  bool start(const Plan& plan, const void* /*input*/, void* /*output*/) override {
    if (state_.may_start == static_cast<int>(state_.started.size())) return false;
    state_.started.push_back(&plan);
    return true;
  }
  bool advance() override {
    if (state_.may_end == state_.ended) return false;
    ++state_.ended;
    return true;
  }
  bool hold_buffers() override { return false; }
  void redirect(const void* /*input*/, void* /*output*/) override {}
  void withdraw_buffers() override { ++state_.withdrawn; }
  std::uint64_t progress() const override {
    return state_.started.size() + static_cast<std::uint64_t>(state_.ended);
  }
  Report report() const override { return {.position = "a test", .awaited = {}}; }
  void compare_calls() override {}

 private:
  State& state_;
};

class TasksOfAnExecutor : public ::testing::Test {
 protected:
  TasksOfAnExecutor() { engine().run_by(std::make_unique<TestedExecutor>(state_)); }

  Engine& engine() { return *world_.front().engine; }
  /// Three tasks, each with a plan of its own.
  void put_all() {
    for (int i = 0; i < 3; ++i) engine().put({.plan = &plans_[i], .outcome = &outcomes_[i]});
  }
  void poll() {
    for (int i = 0; i < 10; ++i) engine().progress()->advance();
  }
  int finished() const {
    int count = 0;
    for (const Outcome& outcome : outcomes_) count += outcome.finished ? 1 : 0;
    return count;
  }

  TestedExecutor::State state_;
  CachedPlan plans_[3];
  Outcome outcomes_[3];
  std::vector<Member> world_ = make_thread_world(1, bounded_settings());
};

TEST_F(TasksOfAnExecutor, BeginAndEndInTheirOrderAsFarAsItHasCome) {
  put_all();
  for (int start = 0; start <= 3; ++start)
    for (int end = std::max(start - 1, 0); end <= start; ++end) {
      state_.may_start = start, state_.may_end = end;
      poll();
      EXPECT_EQ(state_.started.size(), static_cast<std::size_t>(start));
      EXPECT_EQ(finished(), end);
      EXPECT_EQ(engine().is_idle(), end == 3);
      EXPECT_EQ(engine().busy(), end < 3);
    }
  EXPECT_THAT(state_.started,
              ::testing::ElementsAre(&plans_[0].plan, &plans_[1].plan, &plans_[2].plan));
  for (const Outcome& outcome : outcomes_) EXPECT_EQ(outcome.error, nullptr);
}

TEST_F(TasksOfAnExecutor, EndWithItWhetherTheyHaveBegunOrNot) {
  put_all();
  state_.may_start = 2, state_.may_end = 1;
  poll();
  engine().run_by(nullptr);
  EXPECT_TRUE(engine().is_idle());
  EXPECT_EQ(finished(), 3);
  EXPECT_EQ(outcomes_[0].error, nullptr);
  for (int i : {1, 2}) EXPECT_THROW(std::rethrow_exception(outcomes_[i].error), Aborted);
  EXPECT_EQ(state_.withdrawn, 1);
}

/// Chains and circles of engines that share failures, seen from each.
TEST_F(TasksOfAnExecutor, FailWithEveryEngineThatSharesItsFailures) {
  for (std::size_t failing = 0; failing < 3; ++failing)
    for (const bool circle : {false, true}) {
      TestedExecutor::State state;
      Outcome outcome;
      auto worlds = make_thread_world(1, bounded_settings());
      const auto add_group = [&] {
        worlds.push_back(std::move(*make_group(worlds.front(), {Rank{0}}, Purpose::split)));
      };
      add_group(), add_group();
      Engine& last = *worlds[2].engine;
      last.run_by(std::make_unique<TestedExecutor>(state));
      last.put({.plan = &plans_[0], .outcome = &outcome});
      for (std::size_t i = 0; i < (circle ? 3U : 2U); ++i)
        worlds[i].engine->share_failures(*worlds[(i + 1) % 3].engine);
      worlds[failing].engine->abort(TimedOut{"too late", {}});
      for (const Member& each : worlds) {
        ASSERT_TRUE(each.engine->has_failed());
        EXPECT_EQ(each.engine->failure()->kind, Failure::Kind::timed_out);
      }
      EXPECT_TRUE(outcome.finished);
      EXPECT_THROW(std::rethrow_exception(outcome.error), TimedOut);
      EXPECT_EQ(state.withdrawn, 1);
      EXPECT_THROW(last.put({.plan = &plans_[0]}), TimedOut);
      while (worlds.size() > 1) worlds.pop_back();
    }
}

}  // namespace
}  // namespace capstan
