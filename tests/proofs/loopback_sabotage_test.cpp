// SPDX-License-Identifier: Apache-2.0

// Between hosts programs push, and flush what is about to change. Whatever is left out is found.

#include <gtest/gtest.h>

#include "core/schedule/lowering/verify.hpp"
#include "tests/proofs/builds.hpp"

namespace capstan {
namespace {

const Hosts four_hosts{std::vector<int>{0, 1, 2, 3}};
const Hosts two_hosts{std::vector<int>{0, 0, 1, 1}};

std::vector<LoweredCall> calls_of(const Algorithm& algorithm, Protocol protocol) {
  Shape shape{.count = Elements{9}};
  if (has_counts(algorithm.collective)) shape = awkward_shapes(algorithm.collective, 4).back();
  const LoweredCall call{&algorithm, protocol, shape};
  return {call, call, call, call, call};
}

/// Takes out the n-th operation of this kind of rank 1.
LoweredProofOptions without(OpCode code, int n) {
  return {.change_program = [code, n](BoundProgram& program) {
    if (program.source.self != Rank{1}) return;
    int seen = 0;
    erase_ops(program, [&](const BoundOp& op) { return op.code == code && seen++ == n; });
  }};
}

int count_of(OpCode code, const LoweredCall& call, const Hosts& hosts) {
  int count = 0;
  prove_programs({call}, hosts, {.change_program = [&](BoundProgram& program) {
                   if (program.source.self == Rank{1})
                     count =
                         static_cast<int>(std::ranges::count(program.ops, code, &BoundOp::code));
                 }});
  return count;
}

TEST(LoopbackSabotage, NoPushCanBeLeftOut) {
  int pushes = 0;
  for (const Algorithm* algorithm : every_algorithm())
    for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets})
      for (const Hosts& hosts : {four_hosts, two_hosts}) {
        const auto calls = calls_of(*algorithm, protocol);
        const int count = count_of(OpCode::push, calls.front(), hosts);
        pushes += count;
        for (int n = 0; n < count; ++n)
          EXPECT_FALSE(prove_programs(calls, hosts, without(OpCode::push, n)).ok())
              << full_name(*algorithm) << " without push " << n;
      }
  EXPECT_GT(pushes, 200);
}

/// Where input and output share memory, an exchange overwrites what it may still be sending.
TEST(LoopbackSabotage, AFlushThatIsNeededCannotBeLeftOut) {
  for (const auto& [collective, name] :
       {std::pair{Collective::all_to_all, "direct"}, std::pair{Collective::all_to_all, "pairwise"},
        std::pair{Collective::all_reduce, "flat"},
        std::pair{Collective::all_reduce, "recursive_doubling"},
        std::pair{Collective::scan, "flat"}}) {
    const auto calls = calls_of(algorithm_named(collective, name), Protocol::staged);
    ASSERT_TRUE(prove_programs(calls, four_hosts, {.in_place = true}).ok());
    ASSERT_GT(count_of(OpCode::flush, calls.front(), four_hosts), 0) << name;
    const auto is_flush = [](const BoundOp& op) { return op.code == OpCode::flush; };
    const auto result = prove_programs(
        calls, four_hosts, {.in_place = true, .change_program = [&](BoundProgram& program) {
                              erase_ops(program, is_flush);
                            }});
    ASSERT_FALSE(result.ok()) << name_of(collective) << '/' << name;
    EXPECT_EQ(result.findings.front().flaw, proof::Flaw::race);
  }
}

/// Ranks on another host read what has been pushed to them and nothing else.
TEST(LoopbackSabotage, AnAreaThatIsPushedTooLate) {
  const LoweredCall call =
      calls_of(algorithm_named(Collective::broadcast, "binomial"), Protocol::staged).front();
  const auto push_late = [](BoundProgram& program) {
    for (std::size_t i = 0; i + 1 < program.ops.size(); ++i)
      if (program.ops[i].code == OpCode::push && program.ops[i + 1].code == OpCode::signal)
        return std::swap(program.ops[i], program.ops[i + 1]);
  };
  const auto result = prove_programs({call, call}, four_hosts, {.change_program = push_late});
  EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace capstan
