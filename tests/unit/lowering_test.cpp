// What lowering makes of puts between hosts.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "algorithms/registry.hpp"
#include "core/lowering/lower.hpp"

namespace capstan {
namespace {

/// What goes over the network in one call.
struct Traffic {
  std::vector<std::uint64_t> sent;  ///< elements pushed to other hosts, by host
  std::size_t pairs = 0;            ///< of ranks, one of which pushes to the other
};

Traffic traffic(Collective collective, const char* algorithm, const Hosts& hosts,
                const Shape& shape) {
  ByRank<Schedule> schedules;
  for (int rank = 0; rank < hosts.ranks(); ++rank)
    schedules.push_back(
        algorithm_named(collective, algorithm).schedule(Group::world(hosts, Rank{rank}), shape));
  const auto programs = lower_all([&](Rank rank) -> const Schedule& { return schedules[rank]; },
                                  hosts, Protocol::staged);
  Traffic traffic{std::vector<std::uint64_t>(static_cast<std::size_t>(hosts.count()))};
  std::set<std::pair<Rank, Rank>> pairs;
  for (const Program& program : programs)
    for (const Op& op : program.ops)
      if (op.code == OpCode::push) {
        EXPECT_FALSE(hosts.together(program.self, op.peer));
        traffic.sent[static_cast<std::size_t>(hosts.host_of(program.self))] += op.length.value();
        pairs.emplace(program.self, op.peer);
      }
  traffic.pairs = pairs.size();
  return traffic;
}

using Sent = std::vector<std::uint64_t>;

const Hosts two_by_two{std::vector<int>{0, 0, 1, 1}};
const Hosts three_by_two{std::vector<int>{0, 1, 2, 0, 1, 2}};
const Hosts uneven{std::vector<int>{0, 1, 0, 0, 1}};  // three ranks and two

/// Elements that each host sends to others.
Sent sent(Collective collective, const char* algorithm, const Hosts& hosts, std::uint64_t count) {
  return traffic(collective, algorithm, hosts, {.count = Elements{count}}).sent;
}

TEST(Lowering, TwoLevelsSendTheLeastBetweenHosts) {
  // Of a sum over h hosts each has to send (h-1)/h, and the same again of the result.
  EXPECT_EQ(sent(Collective::all_reduce, "two_level", two_by_two, 1200), (Sent{1200, 1200}));
  EXPECT_EQ(sent(Collective::all_reduce, "two_level", three_by_two, 1200),
            (Sent{1600, 1600, 1600}));
  EXPECT_EQ(sent(Collective::all_reduce, "ring", two_by_two, 1200).front(), 1800u);
}

TEST(Lowering, TwoLevelReduceScatterSendsOneSumOfEachBlockOfOthers) {
  const auto sent_by = [](const char* algorithm, const Hosts& hosts) {
    return sent(Collective::reduce_scatter, algorithm, hosts, 300);
  };
  EXPECT_EQ(sent_by("two_level", two_by_two), (Sent{600, 600}));
  EXPECT_EQ(sent_by("two_level", three_by_two), (Sent{1200, 1200, 1200}));
  EXPECT_EQ(sent_by("two_level", uneven), (Sent{600, 900}));
  EXPECT_EQ(sent_by("direct", two_by_two), (Sent{1200, 1200}));
}

TEST(Lowering, TwoLevelAllGatherSendsEachBlockOnceToEachHost) {
  const auto sent_by = [](const char* algorithm, const Hosts& hosts) {
    return sent(Collective::all_gather, algorithm, hosts, 300);
  };
  EXPECT_EQ(sent_by("two_level", two_by_two), (Sent{600, 600}));
  EXPECT_EQ(sent_by("two_level", three_by_two), (Sent{1200, 1200, 1200}));
  EXPECT_EQ(sent_by("two_level", uneven), (Sent{900, 600}));
  EXPECT_EQ(sent_by("direct", two_by_two), (Sent{1200, 1200}));
}

TEST(Lowering, AReduceSendsOneSumFromEachHost) {
  for (const char* algorithm : {"two_level", "leaders"}) {
    const auto sent_by = [&](const Hosts& hosts) {
      return sent(Collective::reduce, algorithm, hosts, 300);
    };
    EXPECT_EQ(sent_by(two_by_two), (Sent{0, 300})) << algorithm;
    EXPECT_EQ(sent_by(three_by_two), (Sent{0, 300, 300})) << algorithm;
    EXPECT_EQ(sent_by(uneven), (Sent{0, 300})) << algorithm;
  }
  EXPECT_EQ(sent(Collective::reduce, "flat", two_by_two, 300), (Sent{0, 600}));
}

/// Nothing can be saved of what is sent: what counts is how many ranks have to talk to how many.
TEST(Lowering, BlocksOfAHostTravelTogether) {
  const auto over = [](Collective collective, const char* algorithm, const Hosts& hosts) {
    return traffic(collective, algorithm, hosts, {.count = Elements{10}});
  };
  for (const Hosts& hosts : {two_by_two, three_by_two, uneven})
    for (const auto& [collective, levels] :
         {std::pair{Collective::all_to_all, "two_level"}, std::pair{Collective::gather, "leaders"},
          std::pair{Collective::scatter, "leaders"}}) {
      const Traffic direct = over(collective, "direct", hosts),
                    together = over(collective, levels, hosts);
      EXPECT_EQ(together.sent, direct.sent) << name_of(collective);
      EXPECT_LT(together.pairs, direct.pairs) << name_of(collective);
    }
  EXPECT_EQ(over(Collective::all_to_all, "direct", two_by_two).pairs, 8u);
  EXPECT_EQ(over(Collective::all_to_all, "two_level", two_by_two).pairs, 4u);
  EXPECT_EQ(over(Collective::all_to_all, "two_level", three_by_two).pairs, 12u);
  EXPECT_EQ(over(Collective::gather, "leaders", three_by_two).pairs, 2u);
  EXPECT_EQ(over(Collective::scatter, "leaders", three_by_two).pairs, 2u);
}

TEST(Lowering, WithinAHostNothingIsPushed) {
  EXPECT_EQ(sent(Collective::all_reduce, "ring", Hosts{4}, 1200), (Sent{0}));
}

TEST(Lowering, WhatIsOnAnotherHostIsPushedFromWhereItIs) {
  const Hosts apart{std::vector<int>{0, 1}};
  const Algorithm& flat = algorithm_named(Collective::all_reduce, "flat");
  const Schedule schedules[] = {
      flat.schedule(Group::world(apart, Rank{0}), {.count = Elements{9}}),
      flat.schedule(Group::world(apart, Rank{1}), {.count = Elements{9}})};
  const Program program =
      lower([&](Rank rank) -> const Schedule& { return schedules[rank.value()]; }, Rank{0},
            Protocol::staged, apart);
  const auto push = std::ranges::find(program.ops, OpCode::push, &Op::code);
  ASSERT_NE(push, program.ops.end());
  EXPECT_EQ(to_string(program, *push), "push to rank 1 input[0,9) -> rank 0 staging[0,9)");
  // In place, the sum would overwrite what is being sent.
  const auto flush = std::ranges::find(program.ops, OpCode::flush, &Op::code);
  const auto sum = std::ranges::find(program.ops, OpCode::gather, &Op::code);
  EXPECT_LT(push, flush);
  EXPECT_LT(flush, sum);
}

}  // namespace
}  // namespace capstan
