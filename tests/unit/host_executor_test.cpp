// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/host_executor.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "capstan/error.hpp"
#include "core/engine/control/failure.hpp"
#include "tests/unit/executor_world.hpp"

namespace capstan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Buffer = std::vector<float>;

/// One executor per rank.
struct Executors {
  explicit Executors(int ranks, Memory memory = Memory::shared) : world(ranks, memory) {
    for (int rank = 0; rank < ranks; ++rank)
      executors.emplace_back(world.peers(rank), world.layout(), few_spins);
  }

  HostExecutor& operator[](int rank) { return executors[static_cast<std::size_t>(rank)]; }

  /// Starts one call on all ranks, whose executors then run by turns until all have ended.
  void run(const std::vector<HostPlan>& plans, const std::vector<Buffer>& inputs,
           std::vector<Buffer>& outputs) {
    for (std::size_t rank = 0; rank < plans.size(); ++rank)
      executors[rank].start(plans[rank], inputs[rank].data(), outputs[rank].data());
    finish();
  }
  void finish() {
    constexpr int most_turns = 100'000;
    for (int turn = 0; turn < most_turns; ++turn) {
      bool all = true;
      for (HostExecutor& executor : executors) all = executor.advance() && all;
      if (all) return;
    }
    FAIL() << "no end: rank 0 waits in " << executors.front().report().position;
  }

  std::vector<HostPlan> plans(const Call& call, std::string_view algorithm, Protocol protocol,
                              Bytes block = Bytes{1 << 20}) const {
    std::vector<HostPlan> all;
    for (int rank = 0; rank < world.ranks(); ++rank)
      all.push_back(world.plan(rank, call, algorithm, protocol, block));
    return all;
  }

  ExecutorWorld world;
  std::deque<HostExecutor> executors;  // they do not move
};

/// Element i of the input of a rank.
float value(int rank, std::size_t i) {
  return static_cast<float>(rank + 1) * static_cast<float>(i % 100 + 1);
}

std::vector<Buffer> inputs_of(int ranks, std::size_t count) {
  std::vector<Buffer> inputs(static_cast<std::size_t>(ranks), Buffer(count));
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i)
      inputs[static_cast<std::size_t>(rank)][i] = value(rank, i);
  return inputs;
}

Buffer sum_of(const std::vector<Buffer>& inputs) {
  Buffer sum(inputs.front().size());
  for (const Buffer& input : inputs)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  return sum;
}

struct Case {
  std::string name;
  Memory memory;
  std::string algorithm;
  Protocol protocol;
  std::size_t count;
  Bytes block{1 << 20};
};

class AllReduce : public ::testing::TestWithParam<Case> {};

/// More calls than there are slots of any kind, so that slots are used again.
TEST_P(AllReduce, CallAfterCall) {
  constexpr int ranks = 3, calls = 100;
  const Case& c = GetParam();
  Executors executors{ranks, c.memory};
  const auto plans =
      executors.plans(f32_call(Collective::all_reduce, c.count), c.algorithm, c.protocol, c.block);
  const auto inputs = inputs_of(ranks, c.count);
  const Buffer sum = sum_of(inputs);
  for (int call = 0; call < calls; ++call) {
    std::vector<Buffer> outputs(ranks, Buffer(c.count));
    executors.run(plans, inputs, outputs);
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_EQ(outputs[static_cast<std::size_t>(rank)], sum) << "rank " << rank << call;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , AllReduce,
    ::testing::Values(
        Case{"OnePacket", Memory::shared, "flat", Protocol::shared_inline_packets, 2},
        Case{"Packets", Memory::shared, "ring", Protocol::inline_packets, 100},
        Case{"Staged", Memory::shared, "ring", Protocol::staged, 1000},
        Case{"Stream", Memory::shared, "direct", Protocol::staged, 30'000, Bytes{12 << 10}},
        Case{"ReadsInputs", Memory::shared, "direct", Protocol::read_input, 5000},
        Case{"WritesOutputs", Memory::shared, "direct", Protocol::write_output, 5000},
        Case{"PacketsBetweenHosts", Memory::mirrored, "flat", Protocol::inline_packets, 20},
        Case{"StagedBetweenHosts", Memory::mirrored, "ring", Protocol::staged, 1000},
        Case{"StreamBetweenHosts", Memory::mirrored, "direct", Protocol::staged, 30'000,
             Bytes{12 << 10}}),
    [](const auto& test) { return test.param.name; });

class TwoRanks : public ::testing::Test {
 protected:
  static constexpr std::size_t count = 1000;

  std::vector<HostPlan> broadcast(Protocol protocol, std::uint64_t length = count) const {
    return executors.plans(f32_call(Collective::broadcast, length), "direct", protocol);
  }

  Executors executors{2};
  std::vector<Buffer> inputs = inputs_of(2, count);
  std::vector<Buffer> outputs{2, Buffer(count)};
};

TEST_F(TwoRanks, BetweenCallsNobodyIsAwaited) {
  const Executor::Report report = executors[0].report();
  EXPECT_EQ(report.position, "between calls");
  EXPECT_TRUE(report.awaited.empty());
  EXPECT_EQ(report.needed_blocks, 0U);
  EXPECT_TRUE(executors[0].advance());
}

TEST_F(TwoRanks, AWaitIsReportedWithCallAndPeer) {
  const auto plans =
      executors.plans(f32_call(Collective::all_reduce, count), "ring", Protocol::staged);
  executors[0].start(plans[0], inputs[0].data(), outputs[0].data());
  EXPECT_FALSE(executors[0].advance());
  const Executor::Report report = executors[0].report();
  EXPECT_THAT(report.position, HasSubstr("all_reduce(1000 x f32, sum) (call 1), algorithm ring"));
  EXPECT_THAT(report.awaited, ElementsAre(Rank{1}));
  EXPECT_EQ(report.needed_blocks, plans[0].blocks);
}

TEST_F(TwoRanks, MissingPacketsAreReportedToo) {
  const auto plans =
      executors.plans(f32_call(Collective::all_reduce, 2), "flat", Protocol::inline_packets);
  executors[1].start(plans[1], inputs[1].data(), outputs[1].data());
  EXPECT_FALSE(executors[1].advance());
  EXPECT_THAT(executors[1].report().awaited, ElementsAre(Rank{0}));
}

TEST_F(TwoRanks, ProgressChangesWithWhatIsDone) {
  const auto plans =
      executors.plans(f32_call(Collective::all_reduce, count), "ring", Protocol::staged);
  const std::uint64_t before = executors[0].progress();
  executors[0].start(plans[0], inputs[0].data(), outputs[0].data());
  executors[0].advance();
  const std::uint64_t waiting = executors[0].progress();
  EXPECT_NE(waiting, before);
  executors[0].advance();
  EXPECT_EQ(executors[0].progress(), waiting);
  executors[1].start(plans[1], inputs[1].data(), outputs[1].data());
  executors.finish();
  EXPECT_NE(executors[0].progress(), waiting);
}

TEST_F(TwoRanks, OtherArgumentsAreAMismatch) {
  const auto own = broadcast(Protocol::staged), others = broadcast(Protocol::staged, count / 2);
  executors[0].start(others[0], inputs[0].data(), outputs[0].data());
  executors[0].advance();
  executors[1].start(own[1], inputs[1].data(), outputs[1].data());
  EXPECT_THROW(executors[1].advance(), Mismatch);
}

/// Nothing has come from the peer, which waits as well.
TEST_F(TwoRanks, WaitsThatLastCompareCalls) {
  const auto own = broadcast(Protocol::staged);
  const auto others =
      executors.plans(f32_call(Collective::all_reduce, count), "ring", Protocol::staged);
  executors[0].start(others[0], inputs[0].data(), outputs[0].data());
  executors[1].start(own[1], inputs[1].data(), outputs[1].data());
  EXPECT_THROW(executors[1].compare_calls(), Mismatch);
}

/// The caller of rank 0 takes its buffer back while rank 1 has yet to read it.
TEST_F(TwoRanks, RedirectedInputsAreReadWhereTheyAreNow) {
  const auto plans = broadcast(Protocol::read_input);
  const Buffer expected = inputs[0];
  Buffer moved = inputs[0];
  executors[0].start(plans[0], inputs[0].data(), outputs[0].data());
  executors[0].advance();
  ASSERT_TRUE(executors[0].hold_buffers());
  executors[0].redirect(moved.data(), outputs[0].data());
  inputs[0].assign(count, -1);
  executors[1].start(plans[1], inputs[1].data(), outputs[1].data());
  executors.finish();
  EXPECT_EQ(outputs[1], expected);
}

/// An owner that holds its buffers has no address to write to: its peer waits for one.
TEST_F(TwoRanks, NobodyWritesToBuffersThatAreHeld) {
  const auto plans =
      executors.plans(f32_call(Collective::all_reduce, count), "direct", Protocol::write_output);
  executors[0].start(plans[0], inputs[0].data(), outputs[0].data());
  executors[0].advance();
  ASSERT_TRUE(executors[0].hold_buffers());
  executors[1].start(plans[1], inputs[1].data(), outputs[1].data());
  for (int turn = 0; turn < 10; ++turn) EXPECT_FALSE(executors[1].advance());
  EXPECT_EQ(outputs[0], Buffer(count));
  Buffer moved(count);
  executors[0].redirect(inputs[0].data(), moved.data());
  executors.finish();
  EXPECT_EQ(moved, sum_of(inputs));
  EXPECT_EQ(outputs[0], Buffer(count));
}

TEST_F(TwoRanks, BetweenCallsThereIsNothingToWithdraw) {
  executors[0].withdraw_buffers();
  EXPECT_EQ(executors[0].report().position, "between calls");
}

/// An owner that gives up takes its buffers back, perhaps in the middle of a read.
TEST(HostExecutorInterrupted, WhatIsReadWhileItsOwnerGivesUpIsNotTaken) {
  for (const bool interrupted : {false, true}) {
    Executors two{2, Memory::interrupted};
    two.world.at_read = [&](Rank owner) {
      if (interrupted)
        publish(two.world.peers(owner.value()).own_control().abort,
                {Failure::Kind::aborted, owner, "gives up"});
    };
    const auto plans =
        two.plans(f32_call(Collective::broadcast, 5000), "direct", Protocol::read_input);
    const Buffer data(5000, 7);
    Buffer outputs[2] = {data, Buffer(5000)};
    for (int rank : {0, 1}) two[rank].start(plans[rank], data.data(), outputs[rank].data());
    bool ended = false;
    for (int turn = 0; turn < 100 && !ended; ++turn) {
      two[0].advance();
      ended = two[1].advance();
    }
    EXPECT_EQ(ended, !interrupted);
  }
}

/// The waits of a rank, as texts: the peer, and the number of cache lines that are prefetched, with
/// their staging buffer and offset.
std::vector<std::string> prefetched_by_waits(const HostPlan& plan) {
  std::vector<std::string> prefetched;
  for (const HostOp& op : plan.host_program(0).ops) {
    if (op.code != OpCode::wait) continue;
    std::string text = fmt::format("{}: {}", op.peer.value(), op.prefetched_lines);
    if (op.prefetched_lines > 0) {
      const BoundOperand& operand = plan.host_program(0).operands[op.prefetched_operand];
      text += fmt::format(" of {} from {}", operand.owner.value(), operand.offset);
    }
    prefetched.push_back(std::move(text));
  }
  return prefetched;
}

TEST(HostPlanTest, AWaitPrefetchesTheBeginOfWhatIsReadNext) {
  const ExecutorWorld world{3};
  const auto reader = [&](std::size_t count) {
    return prefetched_by_waits(
        world.plan(1, f32_call(Collective::broadcast, count), "flat", Protocol::staged));
  };
  EXPECT_THAT(reader(1), ElementsAre("0: 1 of 0 from 0"));
  EXPECT_THAT(reader(17), ElementsAre("0: 2 of 0 from 0"));
  EXPECT_THAT(reader(2048), ElementsAre("0: 16 of 0 from 0"));
  EXPECT_THAT(reader(2049), ElementsAre("0: 0")) << "the processor prefetches long data";
  const HostPlan root = world.plan(0, f32_call(Collective::reduce, 100), "flat", Protocol::staged);
  EXPECT_THAT(prefetched_by_waits(root), ElementsAre("1: 7 of 1 from 0", "2: 7 of 2 from 0"));
}

TEST(HostPlanTest, EachWaitForAPeerPrefetchesWhatFollowsIt) {
  const ExecutorWorld world{2};
  const HostPlan plan =
      world.plan(0, f32_call(Collective::all_reduce, 64), "direct", Protocol::staged);
  const auto second = world.layout().slots().between_regions(plan.slots).value();
  EXPECT_THAT(prefetched_by_waits(plan),
              ElementsAre("1: 2 of 1 from 0", fmt::format("1: 2 of 1 from {}", second)));
}

TEST(HostPlanTest, WaitsForManyPeersPrefetchLittleFromEach) {
  const ExecutorWorld world{33};
  const HostPlan root = world.plan(0, f32_call(Collective::reduce, 500), "flat", Protocol::staged);
  const auto prefetched = prefetched_by_waits(root);
  ASSERT_EQ(prefetched.size(), 32);
  EXPECT_EQ(prefetched.front(), "1: 4 of 1 from 0");
}

TEST(HostPlanTest, AWaitForNothingThatIsReadPrefetchesNothing) {
  const ExecutorWorld world{2};
  EXPECT_THAT(prefetched_by_waits(
                  world.plan(0, {.collective = Collective::barrier}, "flat", Protocol::staged)),
              ElementsAre("1: 0"));
  EXPECT_THAT(prefetched_by_waits(world.plan(1, f32_call(Collective::broadcast, 100), "flat",
                                             Protocol::read_input)),
              ElementsAre("0: 0"));
}

}  // namespace
}  // namespace capstan
