// SPDX-License-Identifier: Apache-2.0

// The loopback transports use all the freedom that transports/transport.hpp gives.

#include "transports/loopback/loopback_transport.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "capstan/error.hpp"
#include "tests/conformance/worlds.hpp"

namespace capstan::conformance {
namespace {

constexpr Bytes size{4096};
constexpr std::uint64_t just_long = Transport::snapshot.value() + 1;

/// Rank 0, which sends, and rank 1, which receives, on one thread.
struct Pair {
  std::vector<std::unique_ptr<Transport>> transports = connected(make_loopback_transports(2, size));
  Transport& sender = *transports[0];
  Transport& receiver = *transports[1];

  void wake() { sender.wake(sender.link(Rank{1})); }
  std::byte* own(std::uint64_t offset) { return sender.segment().data() + offset; }
  std::byte seen(std::uint64_t offset) { return receiver.link(Rank{0}).segment[offset]; }
  void push(std::uint64_t offset, std::uint64_t length) {
    sender.push(Rank{1}, Bytes{offset}, Bytes{length});
  }
};

TEST(LoopbackThreads, AreNeitherMappedNorWokenForNothing) {
  Pair pair;
  EXPECT_FALSE(pair.sender.link(Rank{1}).mapped);
  EXPECT_FALSE(pair.sender.shares_addresses());
  EXPECT_EQ(pair.sender.name(), "loopback");
  ASSERT_NE(pair.sender.link(Rank{1}).doorbell, nullptr);
  EXPECT_NE(pair.sender.link(Rank{1}).doorbell->load(), 0u);
  pair.wake();
  EXPECT_NE(pair.sender.link(Rank{1}).doorbell->load(), 0u);
}

TEST(LoopbackThreads, NothingIsSeenBeforeTheWakeAndTheReceiversProgress) {
  Pair pair;
  *pair.own(5) = std::byte{7};
  pair.push(5, 1);
  pair.sender.progress();
  pair.receiver.progress();
  EXPECT_EQ(pair.seen(5), std::byte{0});
  pair.wake();
  EXPECT_EQ(pair.seen(5), std::byte{0});
  pair.receiver.progress();
  EXPECT_EQ(pair.seen(5), std::byte{7});
}

TEST(LoopbackThreads, WhatIsNotPushedIsNotSeen) {
  Pair pair;
  std::memset(pair.own(0), 1, size.value());
  pair.push(10, 2);
  pair.wake();
  pair.receiver.progress();
  EXPECT_EQ(pair.seen(9), std::byte{0});
  EXPECT_EQ(pair.seen(10), std::byte{1});
  EXPECT_EQ(pair.seen(11), std::byte{1});
  EXPECT_EQ(pair.seen(12), std::byte{0});
}

TEST(LoopbackThreads, ShortRangesAreTakenAtThePushLongOnesAtDelivery) {
  Pair pair;
  std::memset(pair.own(0), 1, size.value());
  pair.push(0, Transport::snapshot.value());
  pair.push(1000, just_long);
  pair.wake();
  std::memset(pair.own(0), 2, size.value());  // too early for the long one, which shows it
  pair.receiver.progress();
  EXPECT_EQ(pair.seen(0), std::byte{1});
  EXPECT_EQ(pair.seen(Transport::snapshot.value() - 1), std::byte{1});
  EXPECT_EQ(pair.seen(1000), std::byte{2});
  EXPECT_EQ(pair.seen(1000 + just_long - 1), std::byte{2});
}

TEST(LoopbackThreads, MemoryFromElsewhereShowsAtThePeerAlone) {
  Pair pair;
  std::array<std::byte, 200> elsewhere;
  elsewhere.fill(std::byte{3});
  pair.sender.push_from(Rank{1}, Bytes{100}, elsewhere.data(), Bytes{200});
  pair.wake();
  pair.receiver.progress();
  EXPECT_EQ(pair.seen(99), std::byte{0});
  EXPECT_EQ(pair.seen(100), std::byte{3});
  EXPECT_EQ(pair.seen(299), std::byte{3});
  EXPECT_EQ(pair.seen(300), std::byte{0});
  EXPECT_EQ(*pair.own(100), std::byte{0});
}

TEST(LoopbackThreads, PushedBecomesTrueInTheProgressThatFollowsDelivery) {
  Pair pair;
  EXPECT_TRUE(pair.sender.pushed(Rank{1}));
  pair.push(0, just_long);
  pair.wake();
  EXPECT_FALSE(pair.sender.pushed(Rank{1}));
  pair.sender.progress();
  EXPECT_FALSE(pair.sender.pushed(Rank{1}));
  pair.receiver.progress();
  EXPECT_FALSE(pair.sender.pushed(Rank{1}));
  pair.sender.progress();
  EXPECT_TRUE(pair.sender.pushed(Rank{1}));
}

bool is_readable(int descriptor) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(LoopbackThreads, TheDescriptorShowsWakeUpsFromPrepareToSleepOn) {
  Pair pair;
  Transport& sleeper = pair.receiver;
  pair.wake();
  EXPECT_FALSE(is_readable(sleeper.descriptor()));
  sleeper.prepare_to_sleep();
  EXPECT_FALSE(is_readable(sleeper.descriptor()));
  pair.wake();
  pair.wake();
  EXPECT_TRUE(is_readable(sleeper.descriptor()));
  sleeper.sleep(2 * patience);
  EXPECT_FALSE(is_readable(sleeper.descriptor()));
}

TEST(LoopbackThreads, DeliveryOfLongRangesWakesTheirSender) {
  Pair pair;
  pair.push(0, just_long);
  pair.wake();
  pair.sender.prepare_to_sleep();
  pair.receiver.progress();
  const Deadline deadline = Deadline::in(patience);
  pair.sender.sleep(2 * patience);
  EXPECT_FALSE(deadline.expired());
  pair.sender.progress();
  EXPECT_TRUE(pair.sender.pushed(Rank{1}));
}

TEST(LoopbackThreads, WhatWasWokenForSurvivesItsSenderTheRestDoesNot) {
  Pair pair;
  {
    std::vector<std::byte> elsewhere(just_long, std::byte{4});
    pair.sender.push_from(Rank{1}, Bytes{0}, elsewhere.data(), Bytes{just_long});
    pair.wake();
    pair.push(1000, 1);
    *pair.own(2000) = std::byte{5};
    pair.push(2000, 1);
    pair.transports[0].reset();
    std::ranges::fill(elsewhere, std::byte{6});
  }
  EXPECT_EQ(pair.receiver.departed(Rank{0}), "the thread of rank 0 has destroyed its transport");
  pair.receiver.progress();
  EXPECT_EQ(pair.seen(just_long - 1), std::byte{4});
  EXPECT_EQ(pair.seen(2000), std::byte{0});
}

TEST(LoopbackThreads, PushesToOneThatHasGoneAreForgotten) {
  Pair pair;
  pair.push(0, just_long);
  pair.wake();
  pair.transports[1].reset();
  pair.push(0, just_long);
  pair.wake();
  pair.sender.progress();
  EXPECT_TRUE(pair.sender.pushed(Rank{1}));
}

TEST(LoopbackThreads, SegmentsMayBeSharedWithOtherTransports) {
  std::array<std::byte, 128> first{}, second{};
  std::array<std::byte*, 2> shared{first.data(), second.data()};
  const auto transports = connected(make_loopback_transports(2, Bytes{128}, shared));
  EXPECT_EQ(transports[1]->segment().data(), second.data());
  second[127] = std::byte{6};
  transports[1]->push(Rank{0}, Bytes{127}, Bytes{1});
  transports[1]->wake(transports[1]->link(Rank{0}));
  transports[0]->progress();
  EXPECT_EQ(transports[0]->link(Rank{1}).segment[127], std::byte{6});
  EXPECT_THROW(make_loopback_transports(3, Bytes{128}, shared), InvalidArgument);
}

TEST(LoopbackThreads, RefuseRangesOutsideTheSegment) {
  Pair pair;
  EXPECT_THROW(pair.push(size.value(), 1), InvalidArgument);
  EXPECT_THROW(pair.push(1, ~std::uint64_t{0}), InvalidArgument);
  EXPECT_THROW(pair.sender.push_from(Rank{1}, size, &pair, Bytes{1}), InvalidArgument);
  EXPECT_NO_THROW(pair.push(size.value(), 0));
}

TEST(LoopbackThreads, ManyMayWakeAtOnce) {
  Pair pair;
  constexpr std::uint64_t rounds = 2000;
  {
    std::jthread waker{[&](const std::stop_token& stop) {
      while (!stop.stop_requested()) pair.wake();
    }};
    std::jthread receiver{[&] {
      wait_until(
          [&] {
            pair.receiver.progress();
            std::uint64_t seen = 0;
            std::memcpy(&seen, pair.receiver.link(Rank{0}).segment, sizeof seen);
            return seen == rounds;
          },
          "the last round");
      waker.request_stop();
    }};
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      std::memcpy(pair.own(0), &round, sizeof round);
      pair.push(0, sizeof round);
      pair.wake();
    }
  }
  pair.sender.progress();
  EXPECT_TRUE(pair.sender.pushed(Rank{1}));
}

}  // namespace
}  // namespace capstan::conformance
