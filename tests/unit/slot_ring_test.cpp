// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/slot_ring.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "tests/unit/executor_world.hpp"

namespace capstan {
namespace {

using testing::ElementsAre;

constexpr auto kind = SlotKind::packets;
constexpr int slots_of_kind = standard_slots.count[kind];

/// One rank that writes one block per call to a slot, which the others read.
struct Writer {
  explicit Writer(ExecutorWorld& world, int rank = 0)
      : log(world.peers(rank)),
        poll(world.peers(rank), few_spins),
        slots(world.peers(rank), world.layout(), log, poll),
        finished(world.peers(rank).own_control().finished) {
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

/// The whole pages of one region of the slots of one kind, in a segment.
struct PagesOfSlots {
  static constexpr std::uint64_t page = 4096;

  PagesOfSlots(const ExecutorWorld& world, const std::byte* segment, SlotKind slots,
               std::uint64_t region) {
    const SlotLayout& layout = world.layout().slots();
    const std::uint64_t length = layout.between_regions(slots).value();
    const std::uint64_t from =
        world.layout().first_slot().value() + layout.offset(slots, 0).value() + length * region;
    const std::uint64_t first = (from + page - 1) / page * page;
    begin = segment + first;
    count = (from + length - first) / page;
  }
  std::size_t mapped() const {
    std::vector<unsigned char> states(count);
    EXPECT_EQ(::mincore(const_cast<std::byte*>(begin), count * page, states.data()), 0);
    return static_cast<std::size_t>(
        std::ranges::count_if(states, [](unsigned char state) { return (state & 1) != 0; }));
  }

  const std::byte* begin = nullptr;
  std::size_t count = 0;
};

/// Ranks of these tests share a page table. Skipped where the kernel cannot map pages ahead, and
/// where it maps a huge page at the first touch of a segment.
class MappedSlotsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    constexpr int populate_read = 22, populate_write = 23;
    for (const int advice : {populate_read, populate_write})
      if (::madvise(world.peers(0).own_segment(), 4096, advice) != 0)
        GTEST_SKIP() << "this kernel maps no pages ahead";
    if (pages(0, SlotKind::small_staging, 1).mapped() > 0)
      GTEST_SKIP() << "this kernel has mapped a huge page";
  }
  PagesOfSlots pages(int rank, SlotKind slots, std::uint64_t region) {
    return {world, world.peers(rank).own_segment(), slots, region};
  }
  /// Slots of rank 0, which were not mapped.
  void expect_that_the_reader_maps(const HostPlan& plan, std::uint64_t region) {
    const PagesOfSlots slots = pages(0, plan.slots, region);
    ASSERT_EQ(slots.mapped(), 0);
    reader.slots.map_pages_of_peers(plan);
    EXPECT_EQ(slots.mapped(), slots.count);
  }

  ExecutorWorld world{3};
  Writer writer{world}, reader{world, 1};
};

/// Else every call of a trial would be the first to touch its slot, and a candidate that stages its
/// data would seem several times as slow as it is.
TEST_F(MappedSlotsTest, SlotsThatAPlanWritesAreMappedBeforeItRuns) {
  constexpr auto slots = SlotKind::small_staging;
  const auto plan_of = [&](int rank) {
    return world.plan(rank, f32_call(Collective::broadcast, 1000), "flat", Protocol::staged);
  };
  const HostPlan plan = plan_of(0);
  ASSERT_EQ(plan.slots, slots);
  ASSERT_EQ(pages(0, slots, 0).mapped(), 0);
  writer.slots.map_pages(plan);
  EXPECT_EQ(pages(0, slots, 0).mapped(), pages(0, slots, 0).count);
  EXPECT_EQ(pages(0, slots, 1).mapped(), 0) << "a broadcast has one step";

  reader.slots.map_pages(plan_of(1));
  EXPECT_EQ(pages(1, slots, 0).mapped(), 0) << "it writes nothing";
}

TEST_F(MappedSlotsTest, SlotsThatAPlanReadsAreMappedForTheReader) {
  const HostPlan plan =
      world.plan(1, f32_call(Collective::broadcast, 256), "flat", Protocol::inline_packets);
  ASSERT_EQ(plan.slots, SlotKind::small_packets);
  expect_that_the_reader_maps(plan, 0);
  EXPECT_EQ(pages(2, plan.slots, 0).mapped(), 0) << "nothing of that rank is read";
}

TEST_F(MappedSlotsTest, TheSecondRegionIsMappedForPlansOfSeveralSteps) {
  const HostPlan plan =
      world.plan(1, f32_call(Collective::all_reduce, 200), "direct", Protocol::staged);
  ASSERT_EQ(plan.slots, SlotKind::tiny_staging);
  expect_that_the_reader_maps(plan, 1);
}

/// A mirror belongs to the reader's process, which has written to it.
TEST_F(MappedSlotsTest, PagesOfMirrorsAreLeftAlone) {
  ExecutorWorld hosts{2, Memory::mirrored};
  const HostPlan plan =
      hosts.plan(1, f32_call(Collective::broadcast, 256), "flat", Protocol::inline_packets);
  Writer far_reader{hosts, 1};
  far_reader.slots.map_pages_of_peers(plan);
  const PagesOfSlots mirror{hosts, hosts.peers(1).segment(Rank{0}), plan.slots, 0};
  EXPECT_EQ(mirror.mapped(), 0);
}

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
