// SPDX-License-Identifier: Apache-2.0

// The effect of each fault, and its limits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "capstan/error.hpp"
#include "tests/conformance/faulty_ranks.hpp"

namespace capstan::conformance {
namespace {

using testing::HasSubstr;

constexpr Bytes size = Ranks::segment_size;

TEST(FaultyTransport, WithoutFaultsShowsWhatWasPushedInTheNextProgress) {
  for (const bool loopback : {false, true}) {
    Ranks ranks({}, 2, loopback);
    EXPECT_FALSE(ranks[0].link(Rank{1}).mapped);
    EXPECT_FALSE(ranks[0].shares_addresses());
    EXPECT_THAT(std::string(ranks[0].name()), testing::StartsWith("faulty "));
    ranks.send(0, 1, 3, 7);
    EXPECT_EQ(ranks.seen(1, 0, 3), 0u);
    EXPECT_EQ(ranks.calls_until_seen(1, 0, 3, 7), 1);
  }
}

TEST(FaultyTransport, KeepsBackWhatNobodyWasWokenFor) {
  Ranks ranks({});
  ranks[0].segment()[0] = std::byte{1};
  ranks[0].push(Rank{1}, Bytes{0}, Bytes{1});
  ranks[0].progress();
  ranks[1].progress();
  EXPECT_EQ(ranks.seen(1, 0, 0), 0u);
  ranks.wake(0, 1);
  EXPECT_EQ(ranks.calls_until_seen(1, 0, 0, 1), 1);
}

TEST(FaultyTransport, DelaysPushesByCallsOfProgressAndCanBeHadAgain) {
  const auto run = [](std::uint64_t seed) {
    Ranks ranks({.seed = seed, .delay = 0.5, .delay_calls = 10});
    std::vector<int> calls;
    for (std::uint64_t i = 1; i <= 100; ++i) {
      ranks.send(0, 1, 0, i);
      calls.push_back(ranks.calls_until_seen(1, 0, 0, i));
    }
    return calls;
  };
  const std::vector<int> calls = run(1);
  EXPECT_EQ(std::ranges::min(calls), 1);
  EXPECT_EQ(std::ranges::max(calls), 11);
  EXPECT_EQ(run(1), calls);
  EXPECT_NE(run(2), calls);
}

TEST(FaultyTransport, PushesOfOneLinkKeepTheirOrderWhateverHappensToThem) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Ranks ranks(all_faults(seed), 3, seed % 2 == 0);
    for (std::uint64_t i = 1; i <= 50; ++i) {
      for (const int from : {0, 1}) {
        ranks.send(from, 2, i, i);
        ranks.send(from, 2, 0, i);
      }
      ranks[2].progress();
      for (const int from : {0, 1}) {
        const std::uint64_t last = ranks.seen(2, from, 0);
        for (std::uint64_t j = 1; j <= last; ++j) EXPECT_EQ(ranks.seen(2, from, j), j);
      }
    }
    ranks.calls_until_seen(2, 0, 0, 50);
    ranks.calls_until_seen(2, 1, 0, 50);
  }
}

TEST(FaultyTransport, ShortRangesAreTakenAsTheyAreAtThePush) {
  Ranks ranks({.seed = 1, .delay = 1});
  std::array<std::byte, Transport::snapshot.value()> elsewhere;
  elsewhere.fill(std::byte{3});
  std::memset(ranks[0].segment().data(), 1, 64);
  ranks[0].push(Rank{1}, Bytes{0}, Transport::snapshot);
  ranks[0].push_from(Rank{1}, Bytes{64}, elsewhere.data(), Transport::snapshot);
  std::memset(ranks[0].segment().data(), 2, 64);
  elsewhere.fill(std::byte{4});
  ranks.wake(0, 1);
  ranks.calls_until_seen(1, 0, 15, 0x0303'0303'0303'0303);
  EXPECT_EQ(ranks.seen(1, 0, 0), 0x0101'0101'0101'0101u);
  EXPECT_EQ(ranks.seen(1, 0, 7), 0x0101'0101'0101'0101u);
  EXPECT_EQ(ranks.seen(1, 0, 8), 0x0303'0303'0303'0303u);
}

TEST(FaultyTransport, LongRangesAreReadWhenTheyShow) {
  Ranks ranks({.seed = 1, .delay = 1});
  const auto fill = [&](int value) { std::memset(ranks[0].segment().data(), value, 800); };
  fill(1);
  ranks[0].push(Rank{1}, Bytes{0}, Bytes{800});
  ranks.wake(0, 1);
  ranks[1].progress();
  EXPECT_EQ(ranks.seen(1, 0, 99), 0u);
  fill(2);  // too early, which shows
  ranks.calls_until_seen(1, 0, 99, 0x0202'0202'0202'0202);
}

TEST(FaultyTransport, PushedBecomesTrueOnceLongRangesHaveShown) {
  Ranks ranks({.seed = 1, .delay = 1, .delay_calls = 1});
  EXPECT_TRUE(ranks[0].pushed(Rank{1}));
  ranks[0].push(Rank{1}, Bytes{0}, Bytes{800});
  ranks.wake(0, 1);
  ranks[1].progress();
  ranks[0].progress();
  EXPECT_FALSE(ranks[0].pushed(Rank{1}));
  ranks[1].progress();
  EXPECT_FALSE(ranks[0].pushed(Rank{1}));
  ranks[0].progress();
  EXPECT_TRUE(ranks[0].pushed(Rank{1}));
}

TEST(FaultyTransport, LongRangesShowInPiecesOfWholeWordsAndBeforeTheirFlag) {
  int cut = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Ranks ranks({.seed = seed, .partial = 1});
    constexpr std::uint64_t words = 100;
    for (std::uint64_t i = 1; i <= words; ++i)
      std::memset(ranks[0].segment().data() + i * 8, 0x11, 8);
    ranks[0].push(Rank{1}, Bytes{8}, Bytes{words * 8});
    ranks.send(0, 1, 0, 1);
    while (ranks.seen(1, 0, 0) == 0) {
      ranks[1].progress();
      std::uint64_t shown = 0;
      while (shown < words && ranks.seen(1, 0, 1 + shown) == 0x1111'1111'1111'1111) ++shown;
      for (std::uint64_t i = shown; i < words; ++i) EXPECT_EQ(ranks.seen(1, 0, 1 + i), 0u);
      if (ranks.seen(1, 0, 0) == 1) {
        EXPECT_EQ(shown, words);
      }
      cut += shown > 0 && shown < words ? 1 : 0;
    }
  }
  EXPECT_GT(cut, 0);
}

TEST(FaultyTransport, WhatIsLostIsSentAgainBeforeAllThatFollows) {
  Ranks ranks({.seed = 1, .drop = 1, .resend_calls = 20});
  std::memset(ranks[0].segment().data(), 1, 800);
  ranks[0].push(Rank{1}, Bytes{0}, Bytes{800});
  ranks.send(0, 1, 200, 5);
  ranks[1].progress();
  EXPECT_NE(ranks.seen(1, 0, 0), 0u) << "a first part gets through";
  EXPECT_EQ(ranks.seen(1, 0, 99), 0u);
  std::memset(ranks[0].segment().data(), 2, 800);  // too early, which shows in all of it
  EXPECT_EQ(ranks.calls_until_seen(1, 0, 99, 0x0202'0202'0202'0202), 20);
  EXPECT_EQ(ranks.seen(1, 0, 0), 0x0202'0202'0202'0202u);
  EXPECT_EQ(ranks.seen(1, 0, 200), 0u);
  EXPECT_EQ(ranks.calls_until_seen(1, 0, 200, 5), 20);
}

TEST(FaultyTransport, LinksOvertakeEachOther) {
  Ranks ranks({.seed = 1, .reorder = 0.5}, 3);
  int zero_first = 0, one_first = 0;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    ranks.send(0, 2, 0, i);
    ranks.send(1, 2, 0, i);
    while (ranks.seen(2, 0, 0) < i || ranks.seen(2, 1, 0) < i) {
      ranks[2].progress();
      if (ranks.seen(2, 0, 0) > ranks.seen(2, 1, 0)) ++zero_first;
      if (ranks.seen(2, 1, 0) > ranks.seen(2, 0, 0)) ++one_first;
    }
    ranks.send(0, 2, 1, i);  // alone, so there is nobody to be passed over for
    EXPECT_EQ(ranks.calls_until_seen(2, 0, 1, i), 1);
  }
  EXPECT_GT(zero_first, 10);
  EXPECT_GT(one_first, 10);
}

TEST(FaultyTransport, AStoppedPeerIsSilentForAWhileAndOthersAreNot) {
  Ranks ranks(FaultPlan::parse("seed=1,stop=0@3:50"), 3);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ranks.send(0, 2, 0, i);
    EXPECT_EQ(ranks.calls_until_seen(2, 0, 0, i), 1);
  }
  ranks.send(0, 2, 0, 4);
  ranks.send(1, 2, 0, 4);
  EXPECT_EQ(ranks.calls_until_seen(2, 1, 0, 4), 1);
  EXPECT_EQ(ranks.calls_until_seen(2, 0, 0, 4), 50);
  EXPECT_EQ(ranks[2].departed(Rank{0}), std::nullopt);
}

TEST(FaultyTransport, AConnectionBreaksForBothOfItsEndsAndNobodyElse) {
  for (const bool loopback : {false, true}) {
    Ranks ranks(FaultPlan::parse("seed=9,reset=0-1@5"), 3, loopback);
    for (std::uint64_t i = 1; i <= 5; ++i) {
      EXPECT_EQ(ranks[1].departed(Rank{0}), std::nullopt);
      ranks.send(0, 1, 0, i);
      EXPECT_EQ(ranks.calls_until_seen(1, 0, 0, i), 1);
    }
    EXPECT_THAT(ranks[1].departed(Rank{0}).value_or("nothing"),
                HasSubstr("injected fault: the connection was reset after 5 pushes (seed=9"));
    ranks[0].progress();
    EXPECT_THAT(ranks[0].departed(Rank{1}).value_or("nothing"), HasSubstr("injected fault"));

    ranks[0].push(Rank{1}, Bytes{0}, Bytes{800});
    ranks.send(0, 1, 0, 6);
    ranks[1].progress();
    ranks[0].progress();
    EXPECT_EQ(ranks.seen(1, 0, 0), 5u);
    EXPECT_TRUE(ranks[0].pushed(Rank{1}));
    for (const int other : {0, 1}) {
      ranks.send(2, other, 0, 8);
      EXPECT_EQ(ranks.calls_until_seen(other, 2, 0, 8), 1);
      EXPECT_EQ(ranks[other].departed(Rank{2}), std::nullopt);
    }
  }
}

TEST(FaultyTransport, APeerDiesForAllTheOthers) {
  Ranks ranks(FaultPlan::parse("seed=1,death=1@2"), 4);
  for (const int other : {0, 2, 3}) {
    for (std::uint64_t i = 1; i <= 9; ++i) ranks.send(1, other, 0, i);
    ranks[other].progress();
    EXPECT_EQ(ranks.seen(other, 1, 0), 2u);
    EXPECT_THAT(ranks[other].departed(Rank{1}).value_or("nothing"),
                HasSubstr("injected fault: rank 1 died after 2 pushes"));
  }
  ranks[1].progress();
  EXPECT_TRUE(ranks[1].departed(Rank{0})) << "the dead one learns of it, so that it ends";
  ranks.send(0, 2, 0, 3);
  EXPECT_EQ(ranks.calls_until_seen(2, 0, 0, 3), 1);
  EXPECT_EQ(ranks[2].departed(Rank{0}), std::nullopt);
}

TEST(FaultyTransport, OneThatHasLeftIsNotMissedBeforeAllOfItHasShown) {
  for (const bool loopback : {false, true}) {
    Ranks ranks({.seed = 1, .delay = 1, .delay_calls = 20}, 2, loopback);
    for (std::uint64_t i = 1; i <= 10; ++i) ranks.send(0, 1, 0, i);
    ranks.leave(0);
    for (int calls = 0; !ranks[1].departed(Rank{0}); ++calls) {
      ASSERT_LT(calls, 1000);
      ranks[1].progress();
    }
    EXPECT_EQ(ranks.seen(1, 0, 0), 10u);
  }
}

TEST(FaultyTransport, RefusesWhatCannotBe) {
  Ranks ranks({});
  EXPECT_THROW(ranks[0].push(Rank{1}, size, Bytes{1}), InvalidArgument);
  EXPECT_THROW(ranks[0].push_from(Rank{1}, Bytes{1}, &ranks, size), InvalidArgument);
  EXPECT_THROW(FaultyTransport::inner_segment(Bytes{0}, 2), InvalidArgument);
  auto inner = make_thread_transports(1, size);
  try {
    FaultyTransport(std::move(inner[0]), Rank{0}, 1, size, {});
    ADD_FAILURE() << "took an inner transport whose segment is too small";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("inner_segment()"));
  }
}

}  // namespace
}  // namespace capstan::conformance
