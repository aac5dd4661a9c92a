// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/progress.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Notes what is asked of a bell, and lets a test do something at that moment.
class Bell final : public Transport {
 public:
  std::string calls;
  std::function<void()> at_prepare = [] {}, at_sleep = [] {};

  std::string_view name() const override { return "bell"; }
  Address address() const override { return {}; }
  void connect(std::span<const Address>, Deadline) override {}
  std::span<std::byte> segment() override { return {}; }
  const Link& link(Rank) const override { return link_; }
  void push(Rank, Bytes, Bytes) override {}
  void progress() override {
    if (!calls.empty()) calls += " look";
  }
  void prepare_to_sleep() override {
    calls += calls.empty() ? "prepare" : " prepare";
    at_prepare();
  }
  void sleep(std::chrono::nanoseconds) override {
    calls += " sleep";
    at_sleep();
  }
  void cancel_sleep() override { calls += " cancel"; }
  std::optional<std::string> departed(Rank) override { return std::nullopt; }

 protected:
  void ring(const Link&) override {}

 private:
  Link link_;
};

struct ProgressTest : ::testing::Test {
  std::shared_ptr<Bell> bell = std::make_shared<Bell>();
  std::shared_ptr<Progress> progress = std::make_shared<Progress>(bell, Progress::Options{});
  std::shared_ptr<Operation> operation =
      std::make_shared<Operation>(progress, "test", Operation::Output{});

  bool wait() {
    return progress->drive([&] { return operation->ended(); }, Deadline::in(60s));
  }
};

/// An operation that ends after the last poll and before the rank counts as asleep rings no bell.
TEST_F(ProgressTest, ARankLooksOnceMoreBeforeItSleeps) {
  bell->at_prepare = [&] { progress->ended(operation, nullptr, std::nullopt); };
  EXPECT_TRUE(wait());
  EXPECT_EQ(bell->calls, "prepare cancel");
}

TEST_F(ProgressTest, TheLastLookTakesInMessages) {
  bell->at_sleep = [&] { operation->complete(); };
  EXPECT_TRUE(wait());
  EXPECT_EQ(bell->calls, "prepare look sleep");
}

TEST_F(ProgressTest, SleepsThatNobodyEndsAreCounted) {
  const auto before = Progress::sleeps_that_ran_out.load();
  int sleeps = 0;
  bell->at_sleep = [&] {
    if (++sleeps < 3) std::this_thread::sleep_for(Progress::longest_sleep.load());
    if (sleeps == 5) operation->complete();
  };
  EXPECT_TRUE(wait());
  EXPECT_GE(Progress::sleeps_that_ran_out - before, 2);
}

TEST_F(ProgressTest, ACallbackMayWaitForWhatEndedAtTheSameTime) {
  const auto next = std::make_shared<Operation>(progress, "next", Operation::Output{});
  bool waited = false;
  operation->when_ended([&](Operation&) {
    waited = progress->drive([&] { return next->ended(); }, Deadline::in(1s));
  });
  bell->at_prepare = [&] {
    if (operation->ended()) return;
    progress->ended(operation, nullptr, std::nullopt);
    progress->ended(next, nullptr, std::nullopt);
  };
  EXPECT_TRUE(wait());
  EXPECT_TRUE(waited);
}

TEST_F(ProgressTest, AWaitEndsAtItsDeadline) {
  EXPECT_FALSE(progress->drive([] { return false; }, Deadline::in(30ms)));
  EXPECT_FALSE(operation->ended());
}

}  // namespace
}  // namespace capstan
