// SPDX-License-Identifier: Apache-2.0

// How the way of an offered message is found.

#include "core/engine/messages/offer_ways.hpp"

#include <gtest/gtest.h>

#include <map>

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Messages by ways that take so long each; returns how many went each way.
std::map<OfferWay, int> run(OfferWays& ways, std::uint64_t bytes, int messages,
                            const std::map<OfferWay, OfferWays::Time>& times) {
  std::map<OfferWay, int> went;
  for (int i = 0; i < messages; ++i) {
    const OfferWay way = ways.next(bytes);
    ++went[way];
    ways.note(bytes, way, times.at(way));
  }
  return went;
}

TEST(OfferWays, EachIsTriedAndTheFastestStays) {
  for (const OfferWay fastest :
       {OfferWay::fragments, OfferWay::streamed_fragments, OfferWay::read}) {
    std::map<OfferWay, OfferWays::Time> times{
        {OfferWay::fragments, 3us}, {OfferWay::streamed_fragments, 4us}, {OfferWay::read, 5us}};
    times[fastest] = 2us;
    OfferWays ways;
    for (const auto& [way, went] : run(ways, 1 << 20, 9, times)) EXPECT_EQ(went, 3);
    EXPECT_EQ(run(ways, 1 << 20, 200, times)[fastest], 200);
    EXPECT_EQ(ways.next(100), OfferWay::fragments) << "nothing is known of other lengths";
  }
}

TEST(OfferWays, AreLookedAtAgainAsCoresMove) {
  OfferWays ways;
  run(ways, 100'000, 200,
      {{OfferWay::fragments, 1us}, {OfferWay::streamed_fragments, 4us}, {OfferWay::read, 3us}});
  const std::map<OfferWay, OfferWays::Time> moved{
      {OfferWay::fragments, 9us}, {OfferWay::streamed_fragments, 4us}, {OfferWay::read, 2us}};
  run(ways, 100'000, 1000, moved);
  EXPECT_EQ(run(ways, 100'000, 100, moved)[OfferWay::read], 100);
}

TEST(OfferWays, LittleIsSpentOnTrials) {
  OfferWays ways;
  const auto went =
      run(ways, 100'000, 100'000,
          {{OfferWay::fragments, 1us}, {OfferWay::streamed_fragments, 4us}, {OfferWay::read, 3us}});
  EXPECT_GT(went.at(OfferWay::fragments), 99'900);
}

TEST(OfferWays, ADifferenceWithinNoiseChangesNothing) {
  OfferWays ways;
  const auto went = run(
      ways, 100'000, 1000,
      {{OfferWay::fragments, 100us}, {OfferWay::streamed_fragments, 95us}, {OfferWay::read, 95us}});
  EXPECT_GT(went.at(OfferWay::fragments), 950);
}

}  // namespace
}  // namespace capstan
