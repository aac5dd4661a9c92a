// SPDX-License-Identifier: Apache-2.0

// Lowering of puts: between hosts, and of landings and signals that few algorithms have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/exports.hpp"
#include "core/schedule/lowering/lower.hpp"

namespace capstan {
namespace {

using ::testing::ElementsAre;

/// The traffic over the network in one call.
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
  // Each of h hosts has to send (h-1)/h of a sum, and the same again of the result.
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

constexpr Elements length{8};

/// The operations of both ranks of a world, whose schedules `write(builder, rank)` writes, as text.
ByRank<std::vector<std::string>> lowered(Protocol protocol,
                                         const std::function<void(ScheduleBuilder&, Rank)>& write) {
  ByRank<Schedule> schedules;
  for (const Rank rank : all_ranks(2)) {
    ScheduleBuilder builder{Group::world(2, rank), length, length};
    write(builder, rank);
    schedules.push_back(std::move(builder).build());
  }
  ByRank<std::vector<std::string>> texts(2);
  for (const Program& program :
       lower_all([&](Rank rank) -> const Schedule& { return schedules[rank]; }, 2, protocol))
    for (const Op& op : program.ops) texts[program.self].push_back(to_string(program, op));
  return texts;
}

TEST(Lowering, ALandingThatIsOverwrittenInPartIsCopiedToScratchFirst) {
  const Range half{Elements{0}, length / 2};
  const auto ops = lowered(Protocol::staged, [&](ScheduleBuilder& s, Rank rank) {
    const Span landing = s.scratch(length);
    if (rank == Rank{1}) return s.send(Rank{0}, landing, s.input());
    s.wait(Rank{1});
    s.copy(landing.part(half), s.input(half));
    s.copy(s.output(), landing);
  });
  EXPECT_THAT(ops[Rank{0}],
              ElementsAre("wait rank 1", "copy rank 1 staging[0,8) -> scratch[0,8)",
                          "copy input[0,4) -> scratch[0,4)", "copy scratch[0,8) -> output[0,8)"));
}

TEST(Lowering, ALandingThatIsReadAcrossItsEndIsCopiedToScratchFirst) {
  const auto ops = lowered(Protocol::staged, [&](ScheduleBuilder& s, Rank rank) {
    const Span both = s.scratch(length);
    const Range left{Elements{0}, length / 2}, right{length / 2, length / 2};
    if (rank == Rank{1}) return s.send(Rank{0}, both.part(right), s.input(right));
    s.copy(both.part(left), s.input(left));
    s.wait(Rank{1});
    s.copy(s.output(), both);
  });
  EXPECT_THAT(ops[Rank{0}], ElementsAre("copy input[0,4) -> scratch[0,4)", "wait rank 1",
                                        "copy rank 1 staging[0,4) -> scratch[4,8)",
                                        "copy scratch[0,8) -> output[0,8)"));
}

/// The first of several puts of the same bytes alone writes the staging buffer.
TEST(Lowering, WhatHasChangedSinceTheLastPutIsWrittenAgain) {
  ScheduleBuilder s{Group::world(2, Rank{0}), length, length};
  const Span source = s.scratch(length);
  s.copy(source, s.input());
  for (int i = 0; i < 2; ++i) s.put(Rank{1}, s.output(), source);
  s.copy(source, s.input());
  s.put(Rank{1}, s.output(), source);
  s.reduce(source, s.input());
  s.put(Rank{1}, s.output(), source);
  std::vector<bool> fresh;
  for (const Export& put : exports_of(std::move(s).build(), Protocol::staged).puts)
    fresh.push_back(put.fresh);
  EXPECT_THAT(fresh, ElementsAre(true, false, true, true));
}

/// An owner whose input was read waits for its reader, unless the schedule has the reader signal
/// later anyway.
TEST(Lowering, ALaterSignalOfAReaderSaysThatItHasRead) {
  const auto ops_with = [](bool signals_later) {
    return lowered(Protocol::read_input, [&](ScheduleBuilder& s, Rank rank) {
      const Span landing = s.scratch(length);
      if (rank == Rank{1}) s.send(Rank{0}, landing, s.input());
      if (rank == Rank{0}) s.wait(Rank{1});
      if (rank == Rank{0}) s.copy(s.output(), landing);
      if (signals_later) rank == Rank{0} ? s.signal(Rank{1}) : s.wait(Rank{0});
    });
  };
  for (const bool signals_later : {true, false}) {  // appended, where the schedule has none
    const auto ops = ops_with(signals_later);
    EXPECT_THAT(ops[Rank{0}], ElementsAre("wait rank 1", "copy rank 1 input[0,8) -> output[0,8)",
                                          "signal rank 1"));
    EXPECT_THAT(ops[Rank{1}], ElementsAre("signal rank 0", "wait rank 0"));
  }
}

}  // namespace
}  // namespace capstan
