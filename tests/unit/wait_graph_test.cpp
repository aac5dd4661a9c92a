// SPDX-License-Identifier: Apache-2.0

// The ranks that keep another waiting: ends of chains of waits, and what ranks publish about them.

#include "core/engine/control/wait_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

namespace capstan {
namespace {

using namespace std::chrono_literals;
using State = Culprit::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Wait wait_for(std::vector<Rank> peers) {
  const int count = static_cast<int>(peers.size());
  return {.kind = Wait::Kind::receive,
          .peers = std::move(peers),
          .peer_count = count,
          .waited = 20ms,
          .number = 7};
}

RankView waiting(std::vector<Rank> peers) {
  return {.wait = wait_for(std::move(peers))};
}

RankView gone(const char* reason) {
  return {.departed = reason};
}

std::vector<Rank> culprits(const WaitGraph& graph) {
  std::vector<Rank> ranks;
  for (const auto& suspect : graph.suspects()) ranks.push_back(suspect.rank);
  return ranks;
}

TEST(WaitGraph, TheEndOfAChainIsBlamedAndNobodyInIt) {
  const WaitGraph graph{Rank{0}, {waiting({Rank{1}}), waiting({Rank{2}}), waiting({Rank{3}}), {}}};
  ASSERT_THAT(culprits(graph), ElementsAre(Rank{3}));
  const auto& suspect = graph.suspects().front();
  EXPECT_EQ(suspect.state, State::absent);
  EXPECT_THAT(suspect.waiters, ElementsAre(Rank{0}, Rank{1}, Rank{2}));
  EXPECT_EQ(suspect.waiter, Rank{2});
  EXPECT_EQ(graph.edges().size(), 3U);
}

TEST(WaitGraph, ARankThatHasStoppedLeadsNowhereWhateverItTold) {
  ByRank<RankView> views{waiting({Rank{1}}), waiting({Rank{2}}), waiting({Rank{0}})};
  views[Rank{1}].stopped = true;
  EXPECT_THAT(culprits(WaitGraph{Rank{0}, views}), ElementsAre(Rank{1}));
  views[Rank{1}].stopped = false;
  views[Rank{1}].quiet = true;
  const WaitGraph graph{Rank{0}, views};
  EXPECT_THAT(culprits(graph), ElementsAre(Rank{1}));
  EXPECT_EQ(graph.suspects().front().state, State::silent);
}

TEST(WaitGraph, EveryOneOfSeveralIsBlamed) {
  ByRank<RankView> views{waiting({Rank{1}, Rank{2}, Rank{3}}), gone("killed"), waiting({Rank{1}}),
                         gone("killed, too")};
  const WaitGraph graph{Rank{0}, views};
  EXPECT_THAT(culprits(graph), ElementsAre(Rank{1}, Rank{3}));
  EXPECT_EQ(graph.suspects().front().state, State::dead);
  views[Rank{3}].left = true;
  EXPECT_EQ((WaitGraph{Rank{0}, views}.suspects().back().state), State::left);
}

/// A rank whose own wait has failed may do anything next, also leave.
TEST(WaitGraph, WhoHasGivenUpLeadsOnEvenWhenItIsGone) {
  ByRank<RankView> views{waiting({Rank{1}}), waiting({Rank{2}}), {}};
  views[Rank{1}].wait.gave_up = true;
  views[Rank{1}].departed = "it left";
  EXPECT_THAT(culprits(WaitGraph{Rank{0}, views}), ElementsAre(Rank{2}));
  EXPECT_EQ((WaitGraph{Rank{0}, views}.suspects().front().state), State::absent);
  views[Rank{1}].wait.lost = true;
  EXPECT_EQ((WaitGraph{Rank{0}, views}.suspects().front().state), State::dead) << "as rank 1 knows";
}

TEST(WaitGraph, WhoseChainHasNoEndWaitsForItself) {
  const WaitGraph graph{Rank{0}, {waiting({Rank{1}}), waiting({Rank{2}}), waiting({Rank{1}})}};
  EXPECT_THAT(culprits(graph), ElementsAre(Rank{1}, Rank{2}));
  EXPECT_EQ(graph.suspects().front().state, State::waiting);
}

TEST(WaitGraph, WhoHasJustMovedIsSuspectedLast) {
  ByRank<RankView> views{waiting({Rank{1}, Rank{2}}), {.moved_lately = true}, {}};
  EXPECT_THAT(culprits(WaitGraph{Rank{0}, views}), ElementsAre(Rank{2}));
  views[Rank{2}].moved_lately = true;
  const WaitGraph graph{Rank{0}, views};
  EXPECT_THAT(culprits(graph), ElementsAre(Rank{1}, Rank{2}));
  EXPECT_TRUE(graph.is_unsettled());
}

TEST(WaitGraph, WhoWaitsForNobodyBlamesNobody) {
  const WaitGraph graph{Rank{0}, {{}, waiting({Rank{0}})}};
  EXPECT_THAT(graph.suspects(), IsEmpty());
}

TEST(WaitRecord, IsReadAsItWasPublishedAndOnlyAsAWhole) {
  WaitRecord record{};
  ASSERT_TRUE(read(record));
  EXPECT_EQ(read(record)->wait, Wait{});
  Wait wait = wait_for({Rank{0}, Rank{3}, Rank{70'000}});
  wait.any = wait.gave_up = wait.lost = true;
  wait.step = 3, wait.steps = 5, wait.group_size = 9;
  wait.call = mark_of({.collective = Collective::broadcast}, {});
  publish(record, wait, 41);
  ASSERT_TRUE(read(record));
  EXPECT_EQ(read(record)->wait, wait);
  EXPECT_EQ(read(record)->beat, 41U);
  for (auto& word : record.words) {
    word.fetch_xor(1 << 4);
    EXPECT_FALSE(read(record)) << "word " << &word - record.words;
    word.fetch_xor(1 << 4);
  }
}

TEST(Wait, OfSeveralTheCallIsNamedWithThePeersOfAll) {
  Wait both = wait_for({Rank{4}});
  add(both, {.kind = Wait::Kind::collective, .peers = {Rank{2}}, .waited = 50ms, .number = 8});
  add(both, {});
  EXPECT_EQ(both.kind, Wait::Kind::collective);
  EXPECT_THAT(both.peers, ElementsAre(Rank{2}, Rank{4}));
  EXPECT_EQ(both.waited, 50ms);
}

TEST(Wait, TextsHaveNoNumberForAnyTag) {
  Wait wait = wait_for({Rank{1}});
  EXPECT_THAT(to_string(wait), HasSubstr("tag 7"));
  wait.number = Wait::any_tag;
  EXPECT_THAT(to_string(wait), HasSubstr("any tag"));
}

}  // namespace
}  // namespace capstan
