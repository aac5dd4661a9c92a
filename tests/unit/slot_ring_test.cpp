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

/// Counts the mapped pages of one region of the slots of one kind.
long pages_mapped(ExecutorWorld& world, int rank, SlotKind slots, std::uint64_t region) {
  constexpr std::uint64_t page = 4096;
  const SlotLayout& layout = world.layout().slots();
  const Bytes length = layout.between_regions(slots);
  const Bytes from = world.layout().first_slot() + layout.offset(slots, 0) + length * region;
  const std::uint64_t first = (from.value() + page - 1) / page * page;
  std::vector<unsigned char> mapped(((from + length).value() - first) / page);
  EXPECT_EQ(::mincore(world.peers(rank).own_segment() + first, mapped.size() * page, mapped.data()),
            0);
  return std::ranges::count_if(mapped, [](unsigned char each) { return (each & 1) != 0; });
}

/// Else every call of a trial would be the first to touch its slot, and a candidate that stages its
/// data would seem several times as slow as it is.
TEST_F(SlotRingTest, SlotsThatAPlanWritesAreMappedBeforeItRuns) {
  constexpr auto slots = SlotKind::small_staging;
  if (::madvise(world.peers(0).own_segment(), 4096, 23 /* MADV_POPULATE_WRITE */) != 0)
    GTEST_SKIP() << "this kernel maps no pages ahead";
  const auto plan_of = [&](int rank) {
    return world.plan(rank, f32_call(Collective::broadcast, 1000), "flat", Protocol::staged);
  };
  const HostPlan plan = plan_of(0);
  ASSERT_EQ(plan.slots, slots);
  ASSERT_EQ(pages_mapped(world, 0, slots, 0), 0);
  writer.slots.map_pages(plan);
  const auto all = world.layout().slots().between_regions(slots).value() / 4096;
  EXPECT_EQ(pages_mapped(world, 0, slots, 0), static_cast<long>(all));
  EXPECT_EQ(pages_mapped(world, 0, slots, 1), 0) << "a broadcast has one step";

  Writer reader{world, 1};
  reader.slots.map_pages(plan_of(1));
  EXPECT_EQ(pages_mapped(world, 1, slots, 0), 0) << "it writes nothing";
}

class PagesOfPeers : public SlotRingTest {
 protected:
  void SetUp() override {
    if (::madvise(world.peers(0).own_segment(), 4096, 22 /* MADV_POPULATE_READ */) != 0)
      GTEST_SKIP() << "this kernel maps no pages ahead";
  }
  /// The mapped pages of rank 0 and their number when all of the region are, once rank 1 has mapped
  /// what it reads. The ranks of this test share a page table.
  std::pair<long, long> mapped_by_reader(const HostPlan& plan, std::uint64_t region) {
    Writer reader{world, 1};
    reader.slots.map_pages_of_peers(plan);
    const auto all = world.layout().slots().between_regions(plan.slots).value() / 4096;
    return {pages_mapped(world, 0, plan.slots, region), static_cast<long>(all)};
  }
};

TEST_F(PagesOfPeers, SlotsThatAPlanReadsAreMapped) {
  const HostPlan plan =
      world.plan(1, f32_call(Collective::broadcast, 256), "flat", Protocol::inline_packets);
  ASSERT_EQ(plan.slots, SlotKind::small_packets);
  ASSERT_EQ(pages_mapped(world, 0, plan.slots, 0), 0);
  const auto [mapped, all] = mapped_by_reader(plan, 0);
  EXPECT_EQ(mapped, all);
  EXPECT_EQ(pages_mapped(world, 2, plan.slots, 0), 0) << "nothing of that rank is read";
}

TEST_F(PagesOfPeers, TheSecondRegionIsMappedForPlansOfSeveralSteps) {
  const HostPlan plan =
      world.plan(1, f32_call(Collective::all_reduce, 200), "direct", Protocol::staged);
  ASSERT_EQ(plan.slots, SlotKind::tiny_staging);
  const auto [mapped, all] = mapped_by_reader(plan, 1);
  EXPECT_GE(mapped, all - 1);
}

TEST(PagesOfMirrors, AreNotMapped) {
  ExecutorWorld hosts{2, Memory::mirrored};
  const HostPlan plan =
      hosts.plan(1, f32_call(Collective::broadcast, 256), "flat", Protocol::inline_packets);
  Writer reader{hosts, 1};
  reader.slots.map_pages_of_peers(plan);
  EXPECT_EQ(pages_mapped(hosts, 0, plan.slots, 0), 0);
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
