// SPDX-License-Identifier: Apache-2.0

// Binding of a lowered program: byte offsets into the buffers of the whole call.

#include "core/schedule/lowering/bind.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "algorithms/registry.hpp"

namespace capstan {
namespace {

using ::testing::ElementsAre;

constexpr Bytes long_read{4096};

const Hosts two_hosts{std::vector<int>{0, 0, 1, 1}};

Call call_of(Collective collective, std::uint64_t count, ReduceOp op = ReduceOp::sum) {
  return {.collective = collective, .op = op, .shape = {.count = Elements{count}}};  // of f32
}

/// The plans of all ranks, in blocks of so many elements.
ByRank<Plan> plans_of(const Call& call, const char* algorithm, Protocol protocol,
                      const Hosts& hosts, std::uint64_t block) {
  const Choice choice{.algorithm = &algorithm_named(call.collective, algorithm),
                      .protocol = protocol};
  return make_plans(call, choice, hosts, Elements{block}, SlotLayout{hosts.ranks(), Bytes{1 << 20}},
                    long_read);
}

std::span<const BoundOperand> operands(const BoundProgram& program, const BoundOp& op) {
  return std::span{program.operands}.subspan(op.first_operand,
                                             op.destination_count + op.source_count);
}

std::size_t count_of(const BoundProgram& program, OpCode code) {
  return static_cast<std::size_t>(std::ranges::count(program.ops, code, &BoundOp::code));
}

/// Where the program's gathers write to the output: offset and length, in elements.
std::vector<std::pair<std::uint64_t, std::uint64_t>> output_pieces(const BoundProgram& program) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  for (const BoundOp& op : program.ops)
    if (op.code == OpCode::gather)
      for (const BoundOperand& to : operands(program, op).first(op.destination_count))
        if (to.place == Place::output) pieces.emplace_back(to.offset / 4, op.count);
  std::ranges::sort(pieces);
  return pieces;
}

TEST(Bind, BlocksOfAGatherGoToTheRanksPartsOfTheOutput) {
  // Parts of 7 elements; a block has 3 of each.
  const auto plans = plans_of(call_of(Collective::all_gather, 7), "direct", Protocol::staged, 3, 3);
  EXPECT_EQ(plans[Rank{0}].blocks, 3u);
  ASSERT_EQ(plans[Rank{0}].programs.size(), 2u) << "the last block is shorter";
  EXPECT_THAT(output_pieces(plans[Rank{1}].program(0)),
              ElementsAre(std::pair{0, 3}, std::pair{7, 3}, std::pair{14, 3}));
  EXPECT_THAT(output_pieces(plans[Rank{1}].program(2)),
              ElementsAre(std::pair{0, 1}, std::pair{7, 1}, std::pair{14, 1}));
}

TEST(Bind, OperationsOverTheEndsOfPartsAreCut) {
  // All blocks of a ring's all-gather travel in one piece where they follow one another; the parts
  // that they go to do not.
  const auto whole =
      plans_of(call_of(Collective::all_gather, 6), "recursive_doubling", Protocol::staged, 4, 24);
  const auto cut =
      plans_of(call_of(Collective::all_gather, 6), "recursive_doubling", Protocol::staged, 4, 3);
  for (const Rank rank : all_ranks(4)) {
    EXPECT_GT(cut[rank].program(0).ops.size(), whole[rank].program(0).ops.size());
    std::uint64_t elements = 0;
    for (const auto& [offset, length] : output_pieces(cut[rank].program(0))) {
      EXPECT_LE(offset % 6 + length, 3u) << "a piece of one part";
      elements += length;
    }
    EXPECT_EQ(elements, 12u);
  }
}

TEST(Bind, OffsetsAreInBytesAndBasesNameSegments) {
  const auto plans = plans_of(call_of(Collective::all_reduce, 40), "flat", Protocol::staged, 3, 40);
  const BoundProgram& program = plans[Rank{2}].program(0);
  const auto sum = std::ranges::find_if(
      program.ops, [](const BoundOp& op) { return op.code == OpCode::gather && !op.is_copy(); });
  ASSERT_NE(sum, program.ops.end());
  EXPECT_EQ(sum->count, 40u);
  for (const BoundOperand& operand : operands(program, *sum))
    EXPECT_EQ(operand.base, operand.in_staging() ? BoundOperand::segment_of(operand.owner)
                                                 : static_cast<std::uint32_t>(operand.place));
}

TEST(Bind, TheSecondRegionOfASlotLiesBehindTheFirstOnesOfAll) {
  const Hosts hosts{4};
  const auto plans =
      plans_of(call_of(Collective::all_reduce, 4000), "direct", Protocol::staged, hosts, 1000);
  const SlotLayout layout{4, Bytes{1 << 20}};
  bool seen = false;
  for (const BoundOperand& operand : plans[Rank{0}].program(0).operands)
    if (operand.in_staging() && operand.offset >= layout.between_regions(SlotKind::staging).value())
      seen = true;
  EXPECT_TRUE(seen);
  EXPECT_EQ(plans[Rank{0}].slots, SlotKind::staging) << "a stream";
}

/// Reads of peers' staging buffers of so many elements by rank 0: whether through writable aliases.
std::vector<bool> aliased(Collective collective, std::uint64_t count) {
  std::vector<bool> found;
  const auto plans = plans_of(call_of(collective, count), "flat", Protocol::staged, 3, count * 3);
  for (const BoundOperand& operand : plans[Rank{0}].program(0).operands)
    if (operand.in_staging() && operand.owner != Rank{0})
      found.push_back(operand.base == BoundOperand::writable_alias(operand.owner, 3));
  return found;
}

TEST(Bind, LongReadsGoThroughWritableAliases) {
  EXPECT_THAT(aliased(Collective::all_reduce, 1024), ElementsAre(true, true));
  EXPECT_THAT(aliased(Collective::all_reduce, 1023), ElementsAre(false, false));
  EXPECT_THAT(aliased(Collective::reduce, 1024), ElementsAre(false, false))
      << "a rank that only reduces what several peers have staged";
}

TEST(Bind, PacketsTakeWholeLines) {
  const auto plans =
      plans_of(call_of(Collective::all_gather, 100), "direct", Protocol::inline_packets, 3, 300);
  for (const Plan& plan : plans)
    for (const BoundOperand& operand : plan.program(0).operands)
      if (operand.in_staging()) {
        EXPECT_EQ(operand.offset % packet_bytes, 0u);
      }
}

TEST(Bind, NoticesAfterWhichNothingIsAwaitedAreDropped) {
  const Call call = call_of(Collective::all_reduce, 2);
  const auto notices = [&](const Hosts& hosts, Rank rank) {
    const auto plans = plans_of(call, "recursive_doubling", Protocol::inline_packets, hosts, 2);
    return std::pair{count_of(plans[rank].program(0), OpCode::notify),
                     static_cast<std::size_t>(std::ranges::count(plans[rank].program(0).source.ops,
                                                                 OpCode::notify, &Op::code))};
  };
  EXPECT_EQ(notices(4, Rank{0}), (std::pair<std::size_t, std::size_t>{2, 2}))
      << "each is followed by a packet that is awaited";
  EXPECT_EQ(notices(two_hosts, Rank{0}), (std::pair<std::size_t, std::size_t>{2, 2}));
  const auto sender =
      plans_of(call_of(Collective::broadcast, 2), "flat", Protocol::inline_packets, 3, 2);
  EXPECT_EQ(count_of(sender[Rank{0}].program(0), OpCode::notify), 0u)
      << "the end of the call wakes all";
  const auto across =
      plans_of(call_of(Collective::broadcast, 2), "flat", Protocol::inline_packets, two_hosts, 2);
  EXPECT_EQ(count_of(across[Rank{0}].program(0), OpCode::notify), 3u)
      << "which does not reach hosts";
}

TEST(Bind, PhasesEndWhereTheirOperationsDo) {
  const auto plans =
      plans_of(call_of(Collective::all_reduce, 4000), "direct", Protocol::staged, 4, 1000);
  for (const Plan& plan : plans)
    for (const BoundProgram& program : plan.programs) {
      EXPECT_TRUE(std::ranges::is_sorted(program.phase_end));
      EXPECT_EQ(program.phase_end.back(), program.ops.size());
      for (std::size_t i = 0; i < program.ops.size(); ++i) {
        const auto phase = program.source.ops[program.ops[i].source_op].phase;
        EXPECT_LT(i, program.phase_end[phase]);
      }
    }
}

TEST(Bind, AnAverageIsDividedWhereItIsComplete) {
  const auto divisors = [](ReduceOp op) {
    std::vector<std::uint32_t> found;
    const auto plans =
        plans_of(call_of(Collective::all_reduce, 6, op), "direct", Protocol::staged, 3, 6);
    for (const BoundOp& bound : plans[Rank{0}].program(0).ops)
      if (bound.divisor != 1) found.push_back(bound.divisor);
    return found;
  };
  EXPECT_THAT(divisors(ReduceOp::average), ElementsAre(3));
  EXPECT_THAT(divisors(ReduceOp::sum), ElementsAre());
}

TEST(Bind, AnErasedOperationShortensItsPhaseAndThoseAfterIt) {
  auto plans = plans_of(call_of(Collective::all_reduce, 4000), "direct", Protocol::staged, 4, 1000);
  BoundProgram program = plans[Rank{1}].program(0);
  const auto ends = program.phase_end;
  ASSERT_GE(ends.size(), 2u);
  const BoundOp next = program.ops[ends[0]];
  erase_op(program, ends[0] - 1);
  EXPECT_EQ(program.phase_end.front(), ends.front() - 1);
  EXPECT_EQ(program.phase_end.back(), ends.back() - 1);
  EXPECT_EQ(program.ops[program.phase_end[0]].source_op, next.source_op);
}

}  // namespace
}  // namespace capstan
