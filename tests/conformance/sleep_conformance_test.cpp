// SPDX-License-Identifier: Apache-2.0

// The promises of transports/transport.hpp about sleeping and waking, for every transport.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"
#include "tests/sanitizers.hpp"

namespace capstan::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t rounds = sanitized ? 300 : 1000;

class SleepConformance : public WorldTest {};

INSTANTIATE_TEST_SUITE_P(All, SleepConformance, testing::ValuesIn(worlds_to_try()),
                         [](const auto& instance) { return instance.param.name; });

void pass_time(std::uint64_t loops) {
  for (std::uint64_t i = 0; i < loops; ++i) {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // keeps the loop
  }
}

TEST_P(SleepConformance, NoWakeUpIsLostBetweenTwo) {
  GetParam().run(2, [](const Member& member) {
    pin_to_core(member);
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      // Arrives sometimes before, sometimes while, sometimes after the peer falls asleep.
      pass_time(round * 37 % 4001);
      if (member.id() == 0) mailbox.raise_flag(peer, round);
      mailbox.await_asleep(peer, round);
      if (member.id() == 1) mailbox.raise_flag(peer, round);
    }
    mailbox.settle();
    member.meet();
  });
}

constexpr std::uint64_t spread_lines = 48;
constexpr Bytes spread_size{spread_lines * 64};

/// One word per line, so that as many stores as possible are pending when the flag is raised.
void write_spread(std::byte* place, std::uint64_t word) {
  for (std::uint64_t i = 0; i < spread_lines; ++i) std::memcpy(place + i * 64, &word, sizeof(word));
}

std::uint64_t least_of_spread(const std::byte* place) {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint64_t i = 0; i < spread_lines; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, place + i * 64, sizeof(word));
    least = std::min(least, word);
  }
  return least;
}

// One rank publishes just when the other falls asleep. A transport whose waker and sleeper can miss
// each other, for example by a store that is delayed past the load of the doorbell, does not wake
// it.
TEST_P(SleepConformance, NoWakeUpIsLostWhileFallingAsleep) {
  GetParam().run(2, [](const Member& member) {
    pin_to_core(member);
    const auto transport = member.connected(Mailbox::segment_for(2, spread_size));
    Mailbox mailbox{member, *transport, spread_size};
    const Rank peer = member.peers()[0];
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      if (member.id() == 0) {
        mailbox.raise_flag(peer, 2 * round);
        pass_time(round * 37 % 1501);
        write_spread(mailbox.outgoing(peer, 0), round);
        transport->push(peer, mailbox.offset_of(peer, 0), spread_size);
        mailbox.raise_flag(peer, 2 * round + 1);
        mailbox.await(peer, round);
      } else {
        mailbox.await(peer, 2 * round);
        mailbox.await_asleep(peer, 2 * round + 1);
        EXPECT_EQ(least_of_spread(mailbox.incoming(peer, 0)), round);
        mailbox.raise_flag(peer, round);
      }
    }
    mailbox.settle();
    member.meet();
  });
}

TEST_P(SleepConformance, SleepEndsByItself) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.connected(Bytes{64});
    for (const std::chrono::nanoseconds at_most : {-1ns, 0ns, 1ns, 1'000'000ns, 3'000'000ns}) {
      transport->prepare_to_sleep();
      transport->sleep(at_most);
    }
    transport->prepare_to_sleep();
    transport->cancel_sleep();
    const Link& own = transport->link(member.self());
    EXPECT_TRUE(!own.doorbell || own.doorbell->load() == 0) << "awake, but announced as asleep";
    member.meet();
  });
}

TEST_P(SleepConformance, AWakeBeforeTheSleepEndsIt) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    mailbox.raise_flag(peer, 1);  // so that the way there is open
    mailbox.await(peer, 1);
    mailbox.settle();
    member.meet();
    if (member.id() == 0) transport->prepare_to_sleep();
    member.meet();
    if (member.id() == 1) {
      mailbox.raise_flag(peer, 2);
      mailbox.settle();
    }
    member.meet();
    if (member.id() == 0) {
      const Deadline deadline = Deadline::in(patience);
      transport->sleep(2 * patience);
      EXPECT_FALSE(deadline.expired());
      mailbox.await(peer, 2);
    }
    member.meet();
  });
}

}  // namespace
}  // namespace capstan::conformance
