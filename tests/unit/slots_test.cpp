// SPDX-License-Identifier: Apache-2.0

// Where a rank writes what it sends, and when it may write there again.

#include "core/schedule/lowering/slots.hpp"

#include <gtest/gtest.h>

#include <set>

namespace capstan {
namespace {

const SlotLayout layout{4, Bytes{1 << 20}};

SlotReaders readers() {
  return std::make_shared<const std::vector<Rank>>(std::vector{Rank{1}, Rank{2}});
}

TEST(Slots, AreOfTheSmallestKindThatFits) {
  const SlotPool& pool = standard_slots;
  EXPECT_EQ(pool.kind_for(Bytes{0}, false, false), SlotKind::tiny_staging);
  EXPECT_EQ(pool.kind_for(pool.region.tiny_staging, false, false), SlotKind::tiny_staging);
  EXPECT_EQ(pool.kind_for(pool.region.tiny_staging + Bytes{1}, false, false),
            SlotKind::small_staging);
  EXPECT_EQ(pool.kind_for(pool.region.small_staging + Bytes{1}, false, false), SlotKind::staging);
  EXPECT_EQ(pool.kind_for(Bytes{0}, true, false), SlotKind::tiny_packets);
  EXPECT_EQ(pool.kind_for(pool.region.tiny_packets, true, false), SlotKind::tiny_packets);
  EXPECT_EQ(pool.kind_for(pool.region.tiny_packets + Bytes{1}, true, false),
            SlotKind::small_packets);
  const Bytes half = pool.region.tiny_packets / 2;
  EXPECT_EQ(pool.kind_for(pool.region.tiny_packets, true, false, half), SlotKind::tiny_packets);
  EXPECT_EQ(pool.kind_for(pool.region.tiny_packets, true, false, half + Bytes{1}),
            SlotKind::small_packets);
  EXPECT_EQ(pool.kind_for(pool.region.small_packets, true, false), SlotKind::small_packets);
  EXPECT_EQ(pool.kind_for(pool.region.small_packets + Bytes{1}, true, false), SlotKind::packets);
  EXPECT_EQ(pool.kind_for(Bytes{0}, false, true), SlotKind::staging) << "a stream";
}

TEST(Slots, NoticesComeBeforeSlotsOfAnySmallKindRunOut) {
  for (const SlotKind kind : all_slot_kinds)
    if (is_small(kind)) {
      EXPECT_LE(standard_slots.calls_per_notice, standard_slots.count[kind]);
    }
}

TEST(Slots, LieOneAfterTheOtherWithoutOverlap) {
  std::uint64_t end = 0;
  for (const SlotKind kind : all_slot_kinds)
    for (int region = 0; region < staging_regions; ++region)
      for (int slot = 0; slot < standard_slots.count[kind]; ++slot) {
        const std::uint64_t begin = (layout.offset(kind, slot) +
                                     layout.between_regions(kind) * static_cast<unsigned>(region))
                                        .value();
        EXPECT_GE(begin, end);
        EXPECT_EQ(begin % 64, 0u);
        end = begin + layout.region(kind).value();
      }
  EXPECT_LE(end, layout.total().value());
  EXPECT_EQ(SlotLayout(1, Bytes{1 << 20}).total(), Bytes{0}) << "a rank on its own stages nothing";
}

TEST(Slots, RotateThroughAllOfAKind) {
  SlotRotation rotation{layout, Bytes{4096}};
  std::set<std::uint64_t> offsets;
  for (int call = 0; call < standard_slots.count.tiny_staging; ++call) {
    offsets.insert(rotation.slot(SlotKind::tiny_staging, 0).offset);
    rotation.end_call(SlotKind::tiny_staging, 1, false);
  }
  EXPECT_EQ(offsets.size(), 32u);
  EXPECT_EQ(*offsets.begin(), layout.offset(SlotKind::tiny_staging, 0).value() + 4096);
  EXPECT_EQ(rotation.slot(SlotKind::tiny_staging, 0).offset, *offsets.begin()) << "comes round";
  EXPECT_EQ(rotation.first_block(), 32u);
}

/// A stream of blocks and as many calls of one block use the same places, one after the other.
TEST(Slots, PlacesMoveOnWithEachTurn) {
  constexpr SlotPlaces places{.count = 4, .distance = 4096};
  SlotRotation calls{layout}, stream{layout};
  std::set<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < 3 * places.count; ++i) {
    const auto offset = [&](SlotRotation& rotation, std::uint64_t block) {
      return rotation.slot(SlotKind::staging, block).offset +
             rotation.place(SlotKind::staging, block, places);
    };
    EXPECT_EQ(calls.place(SlotKind::staging, 0, places), i / 3 * places.distance);
    EXPECT_EQ(offset(stream, i), offset(calls, 0));
    offsets.insert(offset(calls, 0));
    calls.end_call(SlotKind::staging, 1, false);
  }
  EXPECT_EQ(offsets.size(), 3 * places.count);
  stream.end_call(SlotKind::staging, 3 * places.count, false);
  EXPECT_EQ(calls.place(SlotKind::staging, 0, places), 0U) << "comes round";
  EXPECT_EQ(stream.place(SlotKind::staging, 0, places), 0U);
}

TEST(Slots, OfAStreamGoOnWhereTheLastCallEnded) {
  SlotRotation rotation{layout};
  rotation.end_call(SlotKind::staging, 1, false);
  for (const std::uint64_t block : {0, 1, 2, 3, 7})
    EXPECT_EQ(rotation.slot(SlotKind::staging, block).offset,
              layout.offset(SlotKind::staging, static_cast<int>((1 + block) % 3)).value());
  rotation.end_call(SlotKind::staging, 7, false);
  EXPECT_EQ(rotation.slot(SlotKind::staging, 0).offset,
            layout.offset(SlotKind::staging, 8 % 3).value());
}

TEST(Slots, ASlotAheadIsTheOneThatALaterCallUses) {
  for (const SlotKind kind : {SlotKind::tiny_packets, SlotKind::small_packets}) {
    SlotRotation rotation{layout};
    for (int call = 0; call < 200; ++call) {
      for (const std::size_t ahead : {1, 2, 8}) {
        const auto& now = rotation.slot(kind, 0);
        EXPECT_EQ(now.offset + static_cast<std::uint64_t>(rotation.distance(kind, now, ahead)),
                  rotation.slot(kind, ahead).offset);
      }
      rotation.end_call(kind, 1, true);
    }
  }
}

TEST(Slots, ASlotIsWrittenAgainOnlyWhenItsReadersHaveFinished) {
  SlotRotation rotation{layout};
  constexpr auto kind = SlotKind::staging;
  auto& slot = rotation.slot(kind, 0);
  EXPECT_TRUE(rotation.is_free(slot, false)) << "never written";
  const auto of_call = readers();
  rotation.write(slot, 0, of_call);
  EXPECT_EQ(slot.must_finish, 1u) << "block 0, and so one block";
  EXPECT_EQ(slot.readers, of_call);
  rotation.end_call(kind, 3, false);
  ASSERT_EQ(&rotation.slot(kind, 0), &slot);
  EXPECT_FALSE(rotation.is_free(slot, false));
  EXPECT_FALSE(rotation.is_free(slot, true)) << "a promise about one call says nothing of others";
}

TEST(Slots, WithinAStreamOfBoundedSkewReadersAreKnownToHaveFinished) {
  SlotRotation rotation{layout};
  rotation.end_call(SlotKind::packets, 1, false);
  auto& slot = rotation.slot(SlotKind::staging, 0);
  rotation.write(slot, 0, readers());
  EXPECT_TRUE(rotation.is_free(rotation.slot(SlotKind::staging, 3), true));
  EXPECT_FALSE(rotation.is_free(rotation.slot(SlotKind::staging, 3), false));
}

TEST(Slots, ACallThatSynchronizesFreesWhatWasWrittenBeforeIt) {
  SlotRotation rotation{layout};
  auto& before = rotation.slot(SlotKind::tiny_staging, 0);
  rotation.write(before, 0, readers());
  rotation.end_call(SlotKind::tiny_staging, 1, false);
  auto& within = rotation.slot(SlotKind::tiny_staging, 0);
  rotation.write(within, 0, readers());
  rotation.end_call(SlotKind::tiny_staging, 1, true);
  EXPECT_TRUE(rotation.is_free(before, false));
  EXPECT_FALSE(rotation.is_free(within, false)) << "peers may still be in that call";
}

TEST(Slots, WritersOnOtherHostsAreToldOnceOfEachRead) {
  FinishNotices notices{3};
  EXPECT_FALSE(notices.is_due(Rank{1}, 5)) << "nothing of it has been read";
  notices.note_read({Rank{1}}, 6);
  EXPECT_TRUE(notices.is_due(Rank{1}, 6));
  EXPECT_FALSE(notices.is_due(Rank{1}, 7));
  EXPECT_FALSE(notices.is_due(Rank{2}, 7));
}

TEST(Slots, SmallCallsWithholdTheirNotices) {
  FinishNotices notices{2};
  const auto tells = [&](SlotKind kind, std::uint64_t blocks = 1, bool synchronizes = false) {
    return notices.tells_after(kind, blocks, synchronizes);
  };
  EXPECT_TRUE(tells(SlotKind::staging));
  for (int round = 0; round < 3; ++round) {
    for (int call = 1; call < standard_slots.calls_per_notice; ++call)
      EXPECT_FALSE(tells(call % 2 == 0 ? SlotKind::tiny_staging : SlotKind::small_packets));
    EXPECT_FALSE(tells(SlotKind::staging, 1, true)) << "a call that synchronizes tells nothing";
    EXPECT_TRUE(tells(SlotKind::small_staging));
  }
  EXPECT_TRUE(tells(SlotKind::staging, 9, true)) << "slots of a stream come round within it";
  EXPECT_TRUE(tells(SlotKind::packets)) << "of these there are few";
}

TEST(Slots, PacketsHoldWholeElements) {
  EXPECT_EQ(elements_per_packet(Bytes{1}), 56u);
  EXPECT_EQ(elements_per_packet(Bytes{16}), 3u);
  EXPECT_EQ(packets_for(Elements{0}, Bytes{8}), 0u);
  EXPECT_EQ(packets_for(Elements{7}, Bytes{8}), 1u);
  EXPECT_EQ(packets_for(Elements{8}, Bytes{8}), 2u);
  EXPECT_EQ(staging_bytes(Elements{64}, Protocol::staged, Bytes{4}), Bytes{256});
  EXPECT_EQ(staging_bytes(Elements{64}, Protocol::inline_packets, Bytes{8}), Bytes{640});
  EXPECT_NE(packet_tag(0, 0), 0u);
  EXPECT_NE(packet_tag(1, 7), packet_tag(2, 7));
}

}  // namespace
}  // namespace capstan
