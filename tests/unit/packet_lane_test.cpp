// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/packet_lane.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/unit/executor_world.hpp"

namespace capstan {
namespace {

/// Rank 1 copies from the staging buffer of rank 0 to its output, in a call that is made by hand.
/// The test writes the packets.
class PacketLaneTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t call_number = 7, digest = 0x1234'5678;

  void copy_of(std::uint64_t count) {
    plan.protocol = Protocol::inline_packets;
    plan.slots = SlotKind::small_packets;
    plan.element = Bytes{sizeof(float)};
    plan.packet_elements = elements_per_packet(plan.element);
    plan.digest = digest;
    program.operands = {{.place = Place::output, .base = 1, .owner = Rank{1}, .offset = 0},
                        {.place = Place::staging,
                         .base = BoundOperand::segment_of(Rank{0}),
                         .owner = Rank{0},
                         .offset = 0}};
    op.code = OpCode::gather;
    op.destination_count = op.source_count = op.divisor = 1;
    op.count = count;
    output.assign(count, 0);

    call.plan = &plan;
    call.program = &program;
    call.output = reinterpret_cast<std::byte*>(output.data());
    call.slot_offset = slots.enter_block(plan.slots, 0);
    call.place_buffers();
    lane.begin_call(plan, call_number);
  }

  /// Rank 0 sends a packet: its values go up from `first`.
  void send_packet(std::uint64_t index, float first, std::uint64_t number = call_number) {
    auto& packet =
        reinterpret_cast<Packet*>(world.peers(0).own_segment() + call.slot_offset)[index];
    std::vector<float> values(plan.packet_elements);
    std::iota(values.begin(), values.end(), first);
    std::memcpy(packet.payload, values.data(), values.size() * sizeof(float));
    packet.publish(packet_tag(number, static_cast<std::uint32_t>(digest)));
  }

  std::vector<float> rising() const {
    std::vector<float> values(output.size());
    std::iota(values.begin(), values.end(), 0.0F);
    return values;
  }

  ExecutorWorld world{2};
  CallLog log{world.peers(1)};
  ArrivalPoll poll{world.peers(1), few_spins};
  SlotRing slots{world.peers(1), world.layout(), log, poll};
  PacketLane lane{poll, slots};
  RunningCall call{world.peers(1)};
  HostPlan plan{};
  HostProgram program{};
  HostOp op{};
  std::vector<float> output;
};

TEST_F(PacketLaneTest, TakesOnePacket) {
  copy_of(5);
  EXPECT_FALSE(lane.copy_packet(call, op));
  send_packet(0, 0);
  EXPECT_TRUE(lane.copy_packet(call, op));
  EXPECT_EQ(output, rising());
}

TEST_F(PacketLaneTest, GoesOnWhereItStopped) {
  const std::uint64_t each = elements_per_packet(Bytes{sizeof(float)});
  copy_of(2 * each + 3);
  EXPECT_FALSE(lane.gather(call, op));
  EXPECT_EQ(lane.packets_done(), 0U);
  EXPECT_FALSE(lane.has_arrived(call, program.operands[1]));
  send_packet(0, 0);
  send_packet(2, static_cast<float>(2 * each));
  EXPECT_FALSE(lane.gather(call, op));
  EXPECT_EQ(lane.packets_done(), 1U);
  send_packet(1, static_cast<float>(each));
  EXPECT_TRUE(lane.has_arrived(call, program.operands[1]));
  EXPECT_TRUE(lane.gather(call, op));
  EXPECT_EQ(lane.packets_done(), 0U);
  EXPECT_EQ(output, rising());
}

TEST_F(PacketLaneTest, WritesNothingBehindTheLastElement) {
  copy_of(3);
  output = {-1, -1, -1, -1};
  call.output = reinterpret_cast<std::byte*>(output.data());
  call.place_buffers();
  send_packet(0, 0);
  EXPECT_TRUE(lane.gather(call, op));
  EXPECT_EQ(output, (std::vector<float>{0, 1, 2, -1}));
}

TEST_F(PacketLaneTest, PacketsOfOtherCallsAreNotTaken) {
  copy_of(3);
  send_packet(0, 0, call_number - 1);
  EXPECT_FALSE(lane.gather(call, op));
  send_packet(0, 0, call_number + 1);
  EXPECT_FALSE(lane.gather(call, op));
}

}  // namespace
}  // namespace capstan
