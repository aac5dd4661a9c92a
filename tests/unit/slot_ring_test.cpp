#include "core/engine/executor/slot_ring.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capstan/error.hpp"
#include "tests/unit/executor_world.hpp"

namespace capstan {
namespace {

using testing::ElementsAre;

constexpr auto kind = SlotKind::packets;
constexpr int slots_of_kind = standard_slots.count[kind];

/// One rank that writes one block per call to a slot, which the others read.
struct Writer {
  explicit Writer(ExecutorWorld& world)
      : log(world.peers(0)),
        poll(world.peers(0), few_spins),
        slots(world.peers(0), world.layout(), log, poll),
        finished(world.peers(0).own_control().finished) {
    plan.slots = kind;
  }

  /// Begins a call whose block these ranks read; whether its slot is free.
  bool begin(const SlotReaders& readers) {
    const CallMark mark{.signature = 1, .count = ++calls};
    log.begin(mark, mark.digest(), nullptr);
    slots.begin_call(plan);
    slots.enter_block(kind, 0);
    return slots.acquire(readers, 0, false);
  }
  void end() {
    log.end(finished);
    slots.end_call(plan);
  }

  CallLog log;
  ArrivalPoll poll;
  SlotRing slots;
  Plan plan{};
  Finished& finished;
  std::uint64_t calls = 0;
};

class SlotRingTest : public ::testing::Test {
 protected:
  /// A reader has finished so many calls, the same ones as the writer.
  void finish(int rank, std::uint64_t calls) {
    CallLog& log = logs[static_cast<std::size_t>(rank)];
    while (log.call() < calls) {
      const CallMark mark{.signature = 1, .count = log.call() + 1};
      log.begin(mark, mark.digest(), nullptr);
    }
    Finished& finished = world.peers(rank).own_control().finished;
    log.end(finished);
    finished.blocks.store(calls, std::memory_order_release);
  }
  /// Uses every slot of the kind once.
  void fill() {
    for (int call = 0; call < slots_of_kind; ++call) {
      ASSERT_TRUE(writer.begin(readers)) << call;
      writer.end();
    }
  }

  ExecutorWorld world{3};
  Writer writer{world};
  CallLog logs[3] = {CallLog{world.peers(0)}, CallLog{world.peers(1)}, CallLog{world.peers(2)}};
  const SlotReaders readers =
      std::make_shared<const std::vector<Rank>>(std::vector{Rank{1}, Rank{2}});
};

TEST_F(SlotRingTest, ASlotIsUsedAgainWhenAllItsReadersHaveFinished) {
  fill();
  EXPECT_FALSE(writer.begin(readers));
  EXPECT_THAT(writer.slots.unfinished_readers(), ElementsAre(Rank{1}, Rank{2}));
  finish(2, 1);
  EXPECT_FALSE(writer.slots.acquire(readers, 0, false));
  EXPECT_THAT(writer.slots.unfinished_readers(), ElementsAre(Rank{1}));
  finish(1, 1);
  EXPECT_TRUE(writer.slots.acquire(readers, 0, false));
}

TEST_F(SlotRingTest, TheNextSlotHasToBeFinishedToo) {
  fill();
  finish(1, 1);
  finish(2, 1);
  EXPECT_TRUE(writer.begin(readers));
  writer.end();
  EXPECT_FALSE(writer.begin(readers));
}

TEST_F(SlotRingTest, WhatIsNotWrittenNeedsNoSlot) {
  fill();
  EXPECT_TRUE(writer.begin(std::make_shared<const std::vector<Rank>>()));
}

TEST_F(SlotRingTest, ACallThatSynchronizesFreesTheSlotsOfAllBefore) {
  fill();
  writer.plan.slots = SlotKind::staging;
  writer.plan.guarantees.synchronizes = true;
  const CallMark mark{.signature = 1, .count = ++writer.calls};
  writer.log.begin(mark, mark.digest(), nullptr);
  writer.end();
  writer.plan.slots = kind;
  writer.plan.guarantees.synchronizes = false;
  EXPECT_TRUE(writer.begin(readers));
}

TEST_F(SlotRingTest, AReaderOfOtherCallsIsAMismatch) {
  fill();
  const CallMark other{.signature = 2};
  CallLog& log = logs[1];
  log.begin(other, other.digest(), nullptr);
  Finished& finished = world.peers(1).own_control().finished;
  log.end(finished);
  finished.blocks.store(1, std::memory_order_release);
  finish(2, 1);
  EXPECT_THROW(writer.begin(readers), Mismatch);
}

}  // namespace
}  // namespace capstan
