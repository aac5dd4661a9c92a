// SPDX-License-Identifier: Apache-2.0

// Messages and their flow control, with all ranks driven by the thread of the test: what happens
// does not depend on time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <map>
#include <numeric>

#include "capstan/error.hpp"
#include "core/engine/control/failure.hpp"
#include "tests/unit/message_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

bool is_truncated(const Transfer& transfer) {
  if (!transfer.error) return false;
  try {
    std::rethrow_exception(transfer.error);
  } catch (const Truncated&) {
    return true;
  }
}

class MessageFlow : public ::testing::TestWithParam<Memory> {};

INSTANTIATE_TEST_SUITE_P(All, MessageFlow,
                         ::testing::Values(Memory::shared, Memory::mirrored, Memory::read_by_cards),
                         [](const auto& test) {
                           if (test.param == Memory::shared) return "Shared";
                           return test.param == Memory::mirrored ? "Mirrored" : "ReadByCards";
                         });

/// A send that has finished without a receive is stored at the receiver, and no other is.
TEST_P(MessageFlow, WhatIsStoredIsBounded) {
  constexpr std::uint64_t size = 1000, fit = 40;
  MessageWorld world{3, GetParam(), {Messages::stored_bytes(size) * fit * 2}};
  std::vector<std::shared_ptr<Transfer>> sends;
  for (int i = 0; i < 500; ++i) {
    for (const int from : {1, 2}) sends.push_back(world.send(from, 0, 7, filled(size, i)));
    world.settle();
  }
  EXPECT_EQ(finished(sends), 2 * fit) << "each peer has its share";
  for (int i = 0; i < 500; ++i)
    for (const int from : {2, 1}) {
      const auto got = world.receive(0, from, 7);
      world.settle();
      ASSERT_TRUE(got->finished);
      EXPECT_EQ(got->info.size, Bytes{size});
      EXPECT_EQ(got->data[size - 1], static_cast<std::uint8_t>(i)) << "in the order of the sends";
    }
  EXPECT_EQ(finished(sends), 1000);
  for (const int rank : {0, 1, 2}) EXPECT_TRUE(world.at(rank).idle()) << "nothing is left to do";
}

TEST_P(MessageFlow, AReceiveGivesCreditBack) {
  constexpr std::uint64_t size = 100, fit = 16;
  MessageWorld world{2, GetParam(), {Messages::stored_bytes(size) * fit}};
  for (int round = 0; round < 5; ++round) {
    std::vector<std::shared_ptr<Transfer>> sends;
    for (std::uint64_t i = 0; i < fit; ++i) sends.push_back(world.send(0, 1, 1, filled(size, 1)));
    world.settle();
    // Over mirrors, a quarter of the share may be back without the sender's knowing it.
    EXPECT_GE(finished(sends), GetParam() == Memory::shared ? fit : fit * 3 / 4) << round;
    for (std::uint64_t i = 0; i < fit; ++i) world.receive(1, 0, 1);
    world.settle();
    EXPECT_EQ(finished(sends), fit);
  }
  const auto waiting = world.receive(1, 0, 2);
  for (int i = 0; i < 100; ++i) {  // messages that are awaited take no credit for long
    const auto got = world.receive(1, 0, 1), sent = world.send(0, 1, 1, filled(size, i));
    world.settle();
    ASSERT_TRUE(got->finished && sent->finished);
  }
  EXPECT_FALSE(waiting->finished);
}

TEST_P(MessageFlow, WithoutAnyCreditEverySendWaitsForItsReceive) {
  MessageWorld world{2, GetParam(), {Bytes{0}}};
  for (const int to : {0, 1})
    for (const std::size_t size : {0, 1, 1000, 5000}) {
      const auto sent = world.send(0, to, 3, filled(size, 9));
      world.settle();
      EXPECT_FALSE(sent->finished);
      EXPECT_EQ(world.at(to).probe(0, 3)->size, Bytes{size});
      const auto got = world.receive(to, 0, 3, size);
      world.settle();
      ASSERT_TRUE(sent->finished && got->finished) << size << " bytes to " << to;
      EXPECT_EQ(got->error, nullptr);
      EXPECT_THAT(got->data, Each(9));
    }
}

TEST_P(MessageFlow, WhatARankSendsToItselfIsBoundedToo) {
  MessageWorld world{2, GetParam(), {Messages::stored_bytes(5000)}};
  const auto first = world.send(0, 0, 1, filled(5000, 1));
  const auto second = world.send(0, 0, 1, filled(5000, 2));
  EXPECT_TRUE(first->finished);
  EXPECT_FALSE(second->finished);
  EXPECT_EQ(world.receive(0, 0, 1, 5000)->data.front(), 1);
  EXPECT_TRUE(is_truncated(*world.receive(0, 0, 1, 4999)));
  EXPECT_TRUE(second->finished) << "what is dropped is given back, too";
  const auto posted = world.receive(0, 0, 2);
  EXPECT_TRUE(world.send(0, 0, 2, filled(60'000, 3))->finished) << "nothing has to be stored";
  EXPECT_EQ(posted->data[59'999], 3);
}

/// Only memory that has been overwritten does this: all ranks have one limit.
TEST_P(MessageFlow, APeerThatSendsMoreThanItsCreditIsNoticed) {
  MessageWorld world{2, GetParam(), {Bytes{1 << 20}, Messages::stored_bytes(10)}};
  world.send(0, 1, 1, filled(10, 1));
  world.settle();
  world.send(0, 1, 1, filled(10, 1));
  EXPECT_THROW(world.settle(), Aborted);
}

TEST_P(MessageFlow, EagerAndOfferedMessagesOfOneTagStayInOrder) {
  for (const bool read_remote : {true, false}) {
    MessageWorld world{2, GetParam(), {Messages::stored_bytes(50) * 2}, read_remote};
    std::vector<std::size_t> sizes, received;
    for (std::size_t i = 0; i < 60; ++i) {
      sizes.push_back(i % 3 == 0 ? 2000 + i : i % 50);
      world.send(0, 1, 4, filled(sizes.back(), 1));
      world.settle();
      if (i % 4 != 0) continue;
      const auto got = world.receive(1, 0, 4);  // so that there is credit now and then
      world.settle();
      received.push_back(got->info.size.value());
    }
    while (received.size() < sizes.size()) {
      const auto got = world.receive(1, 0, any_tag);
      world.settle();
      received.push_back(got->info.size.value());
    }
    EXPECT_EQ(received, sizes);
  }
}

TEST_P(MessageFlow, AnySourceIsServedInTheOrderOfArrival) {
  MessageWorld world{4, GetParam(), {Messages::stored_bytes(10) * 3}};
  for (const int from : {2, 1, 3, 3, 1, 2}) {  // the second of each has no credit
    world.send(from, 0, from, filled(10, from));
    world.settle();
  }
  std::vector<int> sources;
  for (int i = 0; i < 6; ++i) {
    const auto got = world.receive(0, any_source, any_tag);
    world.settle();
    sources.push_back(got->info.source);
    EXPECT_EQ(got->data.front(), got->info.source);
  }
  EXPECT_THAT(sources, ElementsAre(2, 1, 3, 3, 1, 2));
}

TEST_P(MessageFlow, ReceivesOfOneSourceAndTagAreServedInTheOrderOfTheCalls) {
  for (const std::size_t size : {10, 3000}) {  // eager and offered
    MessageWorld world{2, GetParam(), {Bytes{1 << 20}}};
    std::vector<std::shared_ptr<Transfer>> receives;
    for (const int source : {0, any_source, 0}) receives.push_back(world.receive(1, source, 5));
    for (const int value : {1, 2, 3}) world.send(0, 1, 5, filled(size, value));
    world.settle();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(receives[i]->data[size - 1], i + 1) << size;
  }
}

TEST_P(MessageFlow, ABufferThatIsOneByteTooShortIsNotWrittenBeyond) {
  for (const Bytes limit : {Bytes{0}, Bytes{1 << 20}})
    for (const std::size_t size : {1, 8, 1000, 1024, 3000}) {
      MessageWorld world{2, GetParam(), {limit}};
      for (const bool stored : {false, true}) {  // the message comes after or before the receive
        std::shared_ptr<Transfer> got, sent;
        if (!stored) got = world.receive(1, 0, 5, size - 1);
        sent = world.send(0, 1, 5, filled(size, 1));
        world.settle();
        if (stored) got = world.receive(1, 0, 5, size - 1);
        world.settle();
        EXPECT_TRUE(is_truncated(*got)) << size << " bytes";
        EXPECT_EQ(got->info.size, Bytes{size});
        EXPECT_THAT(got->data, Each(0xee));
        EXPECT_TRUE(sent->finished && !sent->error);
        const auto enough = world.receive(1, 0, 5, size);
        world.send(0, 1, 5, filled(size, 2));
        world.settle();
        EXPECT_THAT(enough->data, Each(2));
      }
    }
}

/// A sender that gives up takes its buffer back, perhaps in the middle of the read.
TEST(MessageFlowInterrupted, WhatIsReadWhileItsSenderGivesUpIsNotTaken) {
  MessageWorld world{2, Memory::interrupted, {Bytes{0}}};
  bool gives_up = false;
  world.base().at_read = [&](Rank sender) {
    if (gives_up)
      publish(world.base().peers(sender.value()).own_control().abort,
              {Failure::Kind::aborted, sender, "gives up"});
  };
  for (const bool interrupted : {false, true}) {
    gives_up = interrupted;
    world.send(0, 1, 1, filled(3000, 5));
    const auto got = world.receive(1, 0, 1);
    world.settle();
    EXPECT_EQ(got->finished, !interrupted);
  }
}

/// An action of a rank in a random program: it sends, posts a receive, probes, or lets time pass.
struct Action {
  int kind, rank, peer, tag;
  std::size_t size;
};

rc::Gen<Action> action(int ranks) {
  const auto rank = rc::gen::inRange(0, ranks);
  return rc::gen::construct<Action>(
      rc::gen::inRange(0, 4), rank, rank, rc::gen::inRange(0, 2),
      rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 40), rc::gen::inRange<std::size_t>(0, 3000)));
}

/// Runs a program, and checks that each message of a source and tag arrives whole and in order.
void run(MessageWorld& world, int ranks, const std::vector<Action>& program) {
  using Key = std::array<int, 3>;  // source, destination, tag
  std::map<Key, std::deque<std::shared_ptr<Transfer>>> sent, received;
  int number = 0;
  for (const auto& [kind, rank, peer, tag, size] : program) switch (kind) {
      case 0:
        sent[{rank, peer, tag}].push_back(world.send(rank, peer, tag, filled(size, ++number)));
        break;
      case 1:
        received[{peer, rank, tag}].push_back(world.receive(rank, peer, tag));
        break;
      case 2:
        world.at(rank).probe(peer, tag);
        break;
      default:
        world.advance(rank);
    }
  const auto complete = [&](const Key& key) {
    const auto [from, to, tag] = key;
    while (received[key].size() < sent[key].size())
      received[key].push_back(world.receive(to, from, tag));
    while (sent[key].size() < received[key].size())
      sent[key].push_back(world.send(from, to, tag, filled(5, ++number)));
  };
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      for (const int tag : {0, 1}) complete({from, to, tag});
  world.settle();
  for (const auto& [key, messages] : sent)
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Transfer &from = *messages[i], &to = *received[key][i];
      RC_ASSERT(from.finished && to.finished);
      RC_ASSERT(!from.error && !to.error);
      RC_ASSERT(to.info.size.value() == from.data.size());
      RC_ASSERT(std::ranges::equal(from.data, std::span{to.data}.first(from.data.size())));
    }
}

RC_GTEST_PROP(MessageFlowOfRandomPrograms, EndsWithEveryMessageInOrder, ()) {
  const int ranks = *rc::gen::inRange(1, 5);
  const auto memory = *rc::gen::element(Memory::shared, Memory::mirrored, Memory::read_by_cards);
  const Bytes limit{*rc::gen::element<std::uint64_t>(0, 130, 1000, 5000)};
  const bool read_remote = *rc::gen::arbitrary<bool>();
  MessageWorld world{ranks, memory, {limit}, read_remote};
  run(world, ranks, *rc::gen::container<std::vector<Action>>(action(ranks)));
}

}  // namespace
}  // namespace capstan
