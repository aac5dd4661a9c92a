// SPDX-License-Identifier: Apache-2.0

// The protocol between the coordinator of a comparison and its workers, also on malformed messages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "perf/compare/protocol.hpp"

namespace capstan::perf::worker_protocol {
namespace {

std::vector<std::byte> bytes_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST(CompareProtocol, MessagesArriveAsTheyWereSent) {
  const Order order{.kind = Order::Kind::time, .collective = 3, .calls = 70'000, .bytes = 1u << 28};
  const auto arrived = decode<Order>(encode(order));
  EXPECT_EQ(arrived.kind, Order::Kind::time);
  EXPECT_EQ(arrived.collective, 3u);
  EXPECT_EQ(arrived.calls, 70'000u);
  EXPECT_EQ(arrived.bytes, 1u << 28);
  const Answer answer{.seconds = 0.25, .wrong = 2, .failed = 1, .text = "no such collective"};
  EXPECT_EQ(decode<Answer>(encode(answer)).seconds, 0.25);
  EXPECT_STREQ(decode<Answer>(encode(answer)).text, "no such collective");
}

TEST(CompareProtocol, RefusesWhatIsNoMessage) {
  auto bytes = bytes_of(encode(Order{}));
  EXPECT_THROW(decode<Answer>(bytes), BootstrapError);
  bytes.push_back(std::byte{0});
  EXPECT_THROW(decode<Order>(bytes), BootstrapError);
  EXPECT_THROW(decode<Order>(std::span{bytes}.first(0)), BootstrapError);
}

TEST(CompareProtocol, RefusesValuesThatCannotBe) {
  const auto beyond = static_cast<Order::Kind>(static_cast<int>(Order::Kind::release) + 1);
  EXPECT_THROW(decode<Order>(encode(Order{.kind = beyond})), BootstrapError);
  EXPECT_THROW(decode<Order>(encode(Order{.collective = 99})), BootstrapError);
  EXPECT_THROW(decode<Order>(encode(Order{.parts = 3})), BootstrapError);
  EXPECT_NO_THROW(decode<Order>(encode(Order{.parts = 2})));
  EXPECT_THROW(decode<Order>(encode(Order{.messages = static_cast<MessagePattern>(4)})),
               BootstrapError);
  EXPECT_THROW(decode<Order>(encode(Order{.window = 0})), BootstrapError);
  EXPECT_THROW(decode<Order>(encode(Order{.window = most_in_window + 1})), BootstrapError);
  EXPECT_THROW(decode<Order>(encode(Order{.started = most_started + 1})), BootstrapError);
  for (const double seconds : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_THROW(decode<Answer>(encode(Answer{.seconds = seconds})), BootstrapError);
}

TEST(CompareProtocol, AReasonThatDoesNotEndIsCut) {
  Answer answer;
  std::ranges::fill(answer.text, 'x');
  const auto bytes = bytes_of(encode(answer));
  EXPECT_EQ(std::strlen(decode<Answer>(bytes).text), sizeof(Answer::text) - 1);
}

TEST(CompareProtocol, ListsOfCallsArriveAsTheyWereSent) {
  CallTimes times{.total = 3, .p50 = 0.5, .largest = 2};
  times.first.back() = 0.25;
  const auto arrived = decode<CallTimes>(encode(times));
  EXPECT_EQ(arrived.first, times.first);
  EXPECT_EQ(arrived.total, 3);
  EXPECT_EQ(arrived.largest, 2);
}

TEST(CompareProtocol, KeysOfRanksDiffer) {
  EXPECT_NE(calls_key(1, 11), calls_key(11, 1));
  EXPECT_NE(answer_key(1, 11), answer_key(11, 1));
  EXPECT_NE(answer_key(1, 1), order_key(1));
}

}  // namespace
}  // namespace capstan::perf::worker_protocol
