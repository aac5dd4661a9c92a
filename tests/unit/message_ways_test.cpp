// SPDX-License-Identifier: Apache-2.0

// How the way of a long message is found.

#include "core/engine/messages/message_ways.hpp"

#include <gtest/gtest.h>

#include <map>

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Messages by ways that take so long each; returns how many went each way.
std::map<MessageWay, int> run(MessageWays& ways, std::uint64_t bytes, int messages,
                              const std::map<MessageWay, MessageWays::Time>& times) {
  std::map<MessageWay, int> went;
  for (int i = 0; i < messages; ++i) {
    const MessageWay way = ways.next(bytes);
    ++went[way];
    ways.note(bytes, way, times.at(way));
  }
  return went;
}

TEST(MessageWays, EachIsTriedAndTheFastestStays) {
  for (const MessageWay fastest :
       {MessageWay::fragments, MessageWay::streamed_fragments, MessageWay::read}) {
    std::map<MessageWay, MessageWays::Time> times{{MessageWay::fragments, 3us},
                                                  {MessageWay::streamed_fragments, 4us},
                                                  {MessageWay::read, 5us}};
    times[fastest] = 2us;
    MessageWays ways{MessageWays::Deciding::receiver};
    for (const auto& [way, went] : run(ways, 1 << 20, 9, times)) EXPECT_EQ(went, 3);
    EXPECT_EQ(run(ways, 1 << 20, 200, times)[fastest], 200);
    EXPECT_EQ(ways.next(100), MessageWay::fragments) << "nothing is known of other lengths";
  }
}

TEST(MessageWays, AreLookedAtAgainAsCoresMove) {
  MessageWays ways{MessageWays::Deciding::receiver};
  run(ways, 100'000, 200,
      {{MessageWay::fragments, 1us},
       {MessageWay::streamed_fragments, 4us},
       {MessageWay::read, 3us}});
  const std::map<MessageWay, MessageWays::Time> moved{
      {MessageWay::fragments, 9us}, {MessageWay::streamed_fragments, 4us}, {MessageWay::read, 2us}};
  run(ways, 100'000, 1000, moved);
  EXPECT_EQ(run(ways, 100'000, 100, moved)[MessageWay::read], 100);
}

TEST(MessageWays, ASenderHasNothingRead) {
  MessageWays ways{MessageWays::Deciding::sender};
  const std::map<MessageWay, MessageWays::Time> times{{MessageWay::fragments, 3us},
                                                      {MessageWay::streamed_fragments, 2us}};
  const auto tried = run(ways, 40'000, 6, times);
  EXPECT_EQ(tried.at(MessageWay::fragments), 3);
  EXPECT_EQ(tried.at(MessageWay::streamed_fragments), 3);
  EXPECT_FALSE(ways.measures(40'000));
  EXPECT_TRUE(ways.measures(10'000));
  EXPECT_EQ(run(ways, 40'000, 100, times)[MessageWay::streamed_fragments], 100);
}

/// Receivers that come late tell no time. Ways take turns all the same.
TEST(MessageWays, TakeTurnsWhereNobodyTellsTheTime) {
  MessageWays ways{MessageWays::Deciding::sender};
  std::map<MessageWay, int> went;
  for (int i = 0; i < 100; ++i) ++went[ways.next(40'000)];
  EXPECT_EQ(went.at(MessageWay::fragments), 50);
  EXPECT_EQ(went.at(MessageWay::streamed_fragments), 50);
}

TEST(MessageWays, AWayThatNobodyHasTimedLoses) {
  MessageWays ways{MessageWays::Deciding::sender};
  for (int i = 0; i < 6; ++i) ways.note(40'000, MessageWay::streamed_fragments, 5us);
  EXPECT_FALSE(ways.measures(40'000));
  EXPECT_EQ(ways.next(40'000), MessageWay::streamed_fragments);
}

TEST(MessageWays, LittleIsSpentOnTrials) {
  MessageWays ways{MessageWays::Deciding::receiver};
  const auto went = run(ways, 100'000, 100'000,
                        {{MessageWay::fragments, 1us},
                         {MessageWay::streamed_fragments, 4us},
                         {MessageWay::read, 3us}});
  EXPECT_GT(went.at(MessageWay::fragments), 99'900);
}

TEST(MessageWays, ADifferenceWithinNoiseChangesNothing) {
  MessageWays ways{MessageWays::Deciding::receiver};
  const auto went = run(ways, 100'000, 1000,
                        {{MessageWay::fragments, 100us},
                         {MessageWay::streamed_fragments, 95us},
                         {MessageWay::read, 95us}});
  EXPECT_GT(went.at(MessageWay::fragments), 950);
}

}  // namespace
}  // namespace capstan
