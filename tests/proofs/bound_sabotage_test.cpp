// SPDX-License-Identifier: Apache-2.0

// Proofs of binding, slots and notices, which change a lowered program: each of them, done wrong,
// is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/schedule/lowering/verify.hpp"
#include "tests/proofs/builds.hpp"

namespace capstan {
namespace {

using proof::Flaw;
using ::testing::HasSubstr;

const Hosts two_hosts{std::vector<int>{0, 1}};

LoweredCall call_of(Collective collective, const char* algorithm, Protocol protocol,
                    std::uint64_t count = 8, std::uint64_t block = 0) {
  return {&algorithm_named(collective, algorithm),
          protocol,
          {.count = Elements{count}},
          Elements{block}};
}

std::vector<LoweredCall> repeated(const LoweredCall& call, std::size_t times) {
  return std::vector<LoweredCall>(times, call);
}

/// The kinds of what was found, and what is said about it.
std::string text(const proof::Result& found) {
  std::string all;
  for (const auto& finding : found.findings) all += finding.message + "\n";
  return all;
}

proof::Result proven_with(const std::vector<LoweredCall>& calls, const Hosts& hosts,
                          std::function<void(BoundProgram&)> change) {
  EXPECT_EQ(text(prove_programs(calls, hosts)), "");
  return prove_programs(calls, hosts, {.change_program = std::move(change)});
}

/// Binding drops the notices at the end of a call, where all peers are woken anyway.
TEST(BoundSabotage, ADroppedNoticeTooMany) {
  const auto calls =
      repeated(call_of(Collective::all_reduce, "recursive_doubling", Protocol::inline_packets), 3);
  const auto found = proven_with(calls, 4, [](BoundProgram& program) {
    for (std::size_t i = program.ops.size(); i-- > 0;)
      if (program.ops[i].code == OpCode::notify) return erase_op(program, i);
  });
  EXPECT_THAT(text(found), HasSubstr("has written its packets and never wakes rank"));
}

/// The plainest message comes first, and does not drown in races.
TEST(BoundSabotage, ADroppedWait) {
  const auto calls = repeated(call_of(Collective::all_reduce, "direct", Protocol::staged, 64), 5);
  const auto found = proven_with(calls, 6, [](BoundProgram& program) {
    if (program.source.self == Rank{0})
      erase_ops(program, [dropped = 0](const BoundOp& op) mutable {
        return op.code == OpCode::wait && op.peer == Rank{1} && dropped++ == 0;
      });
  });
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.findings.front().message,
              HasSubstr("rank 1 signals rank 0 10 times in all calls, which waits for it 5 times"));
  const auto races = std::ranges::count(found.findings, Flaw::race, &proof::Finding::flaw);
  EXPECT_THAT(races, ::testing::AllOf(::testing::Gt(0), ::testing::Le(6))) << text(found);
}

/// Between hosts packets may be kept back until their reader is woken.
TEST(BoundSabotage, ANoticeThatBringsPacketsToAnotherHost) {
  const auto calls = repeated(call_of(Collective::broadcast, "flat", Protocol::inline_packets), 3);
  const auto found = proven_with(calls, two_hosts, [](BoundProgram& program) {
    erase_ops(program, [](const BoundOp& op) { return op.code == OpCode::notify; });
  });
  EXPECT_THAT(text(found), HasSubstr("rank 0 has written its packets and never wakes rank 1"));
}

/// An operation fills packet after packet, without a gap between units of its area. So the packet
/// at which the area's second unit would begin holds other elements than that unit's.
TEST(BoundSabotage, PacketsThatAreReadFromTheMiddleOfAnArea) {
  constexpr std::uint64_t unit = staging_unit.value();
  const auto calls =
      repeated(call_of(Collective::broadcast, "flat", Protocol::inline_packets, 2 * unit), 2);
  const auto read_by_units = [](BoundProgram& program) {
    if (program.source.self != Rank{1}) return;
    BoundOp second = program.ops.front();
    ASSERT_EQ(second.count, 2 * unit);
    program.ops.front().count = second.count = unit;
    const auto first = program.operands.begin() + second.first_operand;
    std::vector<BoundOperand> operands(first, first + 2);
    operands[0].offset += unit * 8;
    operands[1].offset += staging_bytes(staging_unit, Protocol::inline_packets, Bytes{8}).value();
    second.first_operand = static_cast<std::uint32_t>(program.operands.size());
    program.operands.insert(program.operands.end(), operands.begin(), operands.end());
    program.ops.insert(program.ops.begin() + 1, second);
    for (std::uint32_t& end : program.phase_end) ++end;
  };
  EXPECT_FALSE(proven_with(calls, 2, read_by_units).ok());
}

/// The offset inside a packet counts, too.
TEST(BoundSabotage, PacketsThatAreReadFromTheirSecondElement) {
  const auto calls =
      repeated(call_of(Collective::broadcast, "flat", Protocol::inline_packets, 8), 2);
  const auto found = proven_with(calls, 2, [](BoundProgram& program) {
    if (program.source.self == Rank{1}) program.operands[1].offset += 8;
  });
  EXPECT_FALSE(found.ok());
}

/// In blocks of a stream, an operation is cut at the ends of the ranks' parts.
TEST(BoundSabotage, APartThatIsCutOneElementShort) {
  const auto calls = repeated(call_of(Collective::all_gather, "direct", Protocol::staged, 7, 3), 2);
  const auto found = proven_with(calls, 3, [](BoundProgram& program) {
    if (program.source.self != Rank{1}) return;
    for (BoundOp& op : program.ops)
      if (op.code == OpCode::gather && op.count > 1) return void(--op.count);
  });
  EXPECT_THAT(text(found), HasSubstr("which nobody has written"));
  const auto at_the_end = proven_with(calls, 3, [](BoundProgram& program) {
    if (program.source.self == Rank{1}) --program.ops.back().count;
  });
  EXPECT_THAT(text(at_the_end), HasSubstr("rank 1 output[2] of block 0 holds not all"));
}

/// A block's part of a buffer that is bound to another place in it.
TEST(BoundSabotage, APartAtTheWrongPlace) {
  const auto calls = repeated(call_of(Collective::all_gather, "direct", Protocol::staged, 7, 3), 2);
  const auto found = proven_with(calls, 3, [](BoundProgram& program) {
    if (program.source.self == Rank{1})
      program.operands[program.ops.back().first_operand].offset -= 8;
  });
  EXPECT_FALSE(found.ok());
}

/// The segment that an operand names is what is read, whatever its owner is said to be.
TEST(BoundSabotage, ASourceThatIsReroutedToTheWrongPeer) {
  const auto rerouted = [](Collective collective, Protocol protocol) {
    const auto calls = repeated(call_of(collective, "direct", protocol), 2);
    return text(proven_with(calls, 3, [](BoundProgram& program) {
      if (program.source.self != Rank{0}) return;
      for (BoundOperand& operand : program.operands)
        if (operand.in_staging() && operand.owner == Rank{1})
          operand.base = BoundOperand::segment_of(Rank{2});
    }));
  };
  EXPECT_THAT(rerouted(Collective::all_gather, Protocol::staged),
              HasSubstr("(copy rank 1 staging[0,8) -> output[8,16)) reads what is being written by "
                        "step 0 of rank 2"));
  EXPECT_THAT(rerouted(Collective::gather, Protocol::inline_packets),
              HasSubstr("rank 0 output[8] of block 0 holds another rank's: rank 2[0]"));
}

TEST(BoundSabotage, AnAverageThatIsNotDivided) {
  const auto calls = repeated(call_of(Collective::all_reduce, "flat", Protocol::staged), 2);
  const auto found = proven_with(calls, 3, [](BoundProgram& program) {
    for (BoundOp& op : program.ops) op.divisor = 1;
  });
  EXPECT_THAT(text(found), HasSubstr("never marked complete"));
}

TEST(BoundSabotage, ASlotThatIsRotatedOneEarly) {
  for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets}) {
    const auto calls = repeated(call_of(Collective::all_reduce, "direct", protocol), 5);
    ASSERT_TRUE(prove_programs(calls, 3).ok());
    const auto found = prove_programs(
        calls, 3, {.change_rotation = [&](Rank rank, int call, SlotRotation& rotation) {
          if (rank == Rank{1} && call == 2)
            for (const SlotKind kind : all_slot_kinds) rotation.end_call(kind, 1, false);
        }});
    const char* const what =
        in_packets(protocol) ? "never writes its packets" : "which nobody has written";
    EXPECT_THAT(text(found), HasSubstr(what));
  }
}

/// Within a stream of bounded skew no rank looks whether readers have finished: it needs its slots.
TEST(BoundSabotage, AStreamWithTooFewSlots) {
  const auto calls =
      repeated(call_of(Collective::all_reduce, "direct", Protocol::staged, 12, 2), 2);
  SlotPool pool = fewest_slots;
  EXPECT_EQ(text(prove_programs(calls, 3, {.slots = pool})), "");
  pool.count.staging = 1;
  EXPECT_THAT(text(prove_programs(calls, 3, {.slots = pool})),
              HasSubstr("overwrites what is being read by"));
}

/// Across calls it does look: one slot does, though ranks wait for each other.
TEST(BoundSabotage, OneSlotDoesAcrossCalls) {
  const auto calls = repeated(call_of(Collective::all_reduce, "direct", Protocol::staged), 4);
  SlotPool pool = fewest_slots;
  pool.count.tiny_staging = 1;
  EXPECT_EQ(text(prove_programs(calls, 3, {.slots = pool})), "");
}

/// A writer on another host that is told too rarely waits for a notice, and its reader for it.
TEST(BoundSabotage, ANoticeThatIsWithheldOnceTooOften) {
  for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets}) {
    const auto calls = repeated(call_of(Collective::broadcast, "flat", protocol), 12);
    SlotPool pool = fewest_slots;
    const int slots = in_packets(protocol) ? pool.count.tiny_packets : pool.count.tiny_staging;
    pool.calls_per_notice = slots;
    EXPECT_EQ(text(prove_programs(calls, two_hosts, {.slots = pool})), "");
    ++pool.calls_per_notice;
    EXPECT_THAT(text(prove_programs(calls, two_hosts, {.slots = pool})),
                HasSubstr("rank 1, on another host, has finished block 0 and withholds the "
                          "notice of it"));
  }
}

/// With as many slots as there really are, and notices as rare as they really are.
TEST(BoundSabotage, NoticesAreRareEnoughForTheSlotsThatThereAre) {
  struct Kind {
    Protocol protocol;
    std::uint64_t count;
    int slots;
  };
  const Kind kinds[] = {
      {Protocol::inline_packets, 1, standard_slots.count.tiny_packets},
      {Protocol::inline_packets, 300, standard_slots.count.small_packets},
      {Protocol::staged, 1, standard_slots.count.tiny_staging},
      {Protocol::staged, 300, standard_slots.count.small_staging},
  };
  std::vector<LoweredCall> mixed;
  for (const auto& [protocol, count, slots] : kinds) {
    const auto call = call_of(Collective::broadcast, "flat", protocol, count);
    const auto calls = repeated(call, static_cast<std::size_t>(2 * slots + 3));
    EXPECT_EQ(text(prove_programs(calls, two_hosts, {.slots = standard_slots})), "");
    mixed.push_back(call);
    SlotPool pool = standard_slots;
    pool.calls_per_notice = slots + 1;
    EXPECT_THAT(text(prove_programs(calls, two_hosts, {.slots = pool})),
                HasSubstr("withholds the notice"));
  }
  std::vector<LoweredCall> calls;
  for (int i = 0; i < 120; ++i) calls.push_back(mixed[static_cast<std::size_t>(i * i % 7 % 3)]);
  EXPECT_EQ(text(prove_programs(calls, two_hosts, {.slots = standard_slots})), "");
}

}  // namespace
}  // namespace capstan
