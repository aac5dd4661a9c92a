// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/signals.hpp"

#include <gtest/gtest.h>

#include "capstan/error.hpp"
#include "tests/unit/executor_world.hpp"

namespace capstan {
namespace {

/// The parts that one rank needs to signal.
struct Node {
  Node(ExecutorWorld& world, int rank)
      : log(world.peers(rank)),
        poll(world.peers(rank), few_spins),
        signals(world.peers(rank), world.layout(), log, poll) {}

  /// Enters a call of so many elements.
  void enter(std::uint64_t count) {
    const CallMark mark{.signature = 1, .count = count};
    log.begin(mark, mark.digest(), nullptr);
  }

  CallLog log;
  ArrivalPoll poll;
  Signals signals;
};

class SignalsTest : public ::testing::TestWithParam<Memory> {
 protected:
  ExecutorWorld world{2, GetParam()};
  Node sender{world, 0}, receiver{world, 1};
};

TEST_P(SignalsTest, AWaitConsumesOneSignal) {
  sender.enter(1);
  receiver.enter(1);
  EXPECT_FALSE(receiver.signals.wait(Rank{0}));
  sender.signals.send(Rank{1});
  EXPECT_TRUE(receiver.signals.wait(Rank{0}));
  EXPECT_FALSE(receiver.signals.wait(Rank{0}));
}

TEST_P(SignalsTest, SignalsThatAreSentAheadAreCounted) {
  sender.enter(1);
  receiver.enter(1);
  for (int i = 0; i < 3; ++i) sender.signals.send(Rank{1});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(receiver.signals.wait(Rank{0})) << i;
  EXPECT_FALSE(receiver.signals.wait(Rank{0}));
}

TEST_P(SignalsTest, BothDirectionsAreApart) {
  sender.enter(1);
  receiver.enter(1);
  sender.signals.send(Rank{1});
  EXPECT_FALSE(sender.signals.wait(Rank{1}));
  receiver.signals.send(Rank{0});
  EXPECT_TRUE(sender.signals.wait(Rank{1}));
  EXPECT_TRUE(receiver.signals.wait(Rank{0}));
}

/// The sender may be several calls ahead: the history of the receiver's own call is among those
/// that stand beside the counter, or in the sender's record of its calls.
TEST_P(SignalsTest, ASenderMayBeManyCallsAhead) {
  constexpr int calls = 3 * static_cast<int>(Flag::history_depth);
  for (int call = 1; call <= calls; ++call) {
    sender.enter(static_cast<std::uint64_t>(call));
    sender.signals.send(Rank{1});
  }
  for (int call = 1; call <= calls; ++call) {
    receiver.enter(static_cast<std::uint64_t>(call));
    EXPECT_TRUE(receiver.signals.wait(Rank{0})) << call;
  }
}

TEST_P(SignalsTest, ASignalOfADifferentCallIsAMismatch) {
  sender.enter(1);
  receiver.enter(2);
  sender.signals.send(Rank{1});
  EXPECT_THROW(receiver.signals.wait(Rank{0}), Mismatch);
}

INSTANTIATE_TEST_SUITE_P(, SignalsTest, ::testing::Values(Memory::shared, Memory::mirrored),
                         [](const auto& test) {
                           return test.param == Memory::shared ? "Shared" : "Mirrored";
                         });

}  // namespace
}  // namespace capstan
