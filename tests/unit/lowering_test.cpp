// What lowering makes of puts between hosts.

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/registry.hpp"
#include "core/runtime/lower.hpp"

namespace capstan {
namespace {

/// Elements that the ranks of one host push to others in an all-reduce.
std::uint64_t sent_by_host(const char* algorithm, const Hosts& hosts, int host, Elements count) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < hosts.ranks(); ++rank)
    schedules.push_back(algorithm_named(Collective::all_reduce, algorithm)
                            .schedule(Group::world(hosts, Rank{rank}), {.count = count}));
  const auto programs = lower_all(
      [&](Rank rank) -> const Schedule& {
        return schedules[static_cast<std::size_t>(rank.value())];
      },
      hosts, Form::flags);
  std::uint64_t sent = 0;
  for (const Program& program : programs)
    for (const Op& op : program.ops)
      if (op.code == OpCode::push && hosts.host_of(program.self) == host) {
        EXPECT_FALSE(hosts.together(program.self, op.peer));
        sent += op.length.value();
      }
  return sent;
}

TEST(Lowering, TwoLevelsSendTheLeastBetweenHosts) {
  const Elements count{1200};
  const Hosts two{std::vector<int>{0, 0, 1, 1}}, three{std::vector<int>{0, 0, 1, 1, 2, 2}};
  for (int host = 0; host < 2; ++host)
    EXPECT_EQ(sent_by_host("two_level", two, host, count), 1200u);  // 2(h-1)/h of it
  for (int host = 0; host < 3; ++host)
    EXPECT_EQ(sent_by_host("two_level", three, host, count), 1600u);
  EXPECT_EQ(sent_by_host("ring", two, 0, count), 1800u);
}

TEST(Lowering, WithinAHostNothingIsPushed) {
  EXPECT_EQ(sent_by_host("ring", Hosts{4}, 0, Elements{1200}), 0u);
}

TEST(Lowering, WhatIsOnAnotherHostIsPushedFromWhereItIs) {
  const Hosts apart{std::vector<int>{0, 1}};
  const Algorithm& flat = algorithm_named(Collective::all_reduce, "flat");
  const Schedule schedules[] = {
      flat.schedule(Group::world(apart, Rank{0}), {.count = Elements{9}}),
      flat.schedule(Group::world(apart, Rank{1}), {.count = Elements{9}})};
  const Program program =
      lower([&](Rank rank) -> const Schedule& { return schedules[rank.value()]; }, Rank{0},
            Form::flags, apart);
  const auto push = std::ranges::find(program.ops, OpCode::push, &Op::code);
  ASSERT_NE(push, program.ops.end());
  EXPECT_EQ(to_string(program, *push), "push to rank 1 input[0,9) -> rank 0 board[0,9)");
  // In place, the sum would overwrite what is being sent.
  const auto flush = std::ranges::find(program.ops, OpCode::flush, &Op::code);
  const auto sum = std::ranges::find(program.ops, OpCode::gather, &Op::code);
  EXPECT_LT(push, flush);
  EXPECT_LT(flush, sum);
}

}  // namespace
}  // namespace capstan
