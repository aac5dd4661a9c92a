// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "capstan/error.hpp"
#include "capstan/group.hpp"
#include "capstan/span.hpp"

namespace capstan {
namespace {

TEST(Group, OfTheWorldNumbersAsTheRanksDo) {
  const Group group = Group::world(5, Rank{3});
  EXPECT_EQ(group.size(), 5);
  EXPECT_EQ(group.position(), 3);
  EXPECT_EQ(group.self(), Rank{3});
  EXPECT_EQ(group[4], Rank{4});
}

TEST(Group, OfMembersNumbersInTheirOrder) {
  const Group group{{Rank{9}, Rank{2}, Rank{5}}, Rank{2}};
  EXPECT_EQ(group.size(), 3);
  EXPECT_EQ(group.position(), 1);
  EXPECT_EQ(group.self(), Rank{2});
  EXPECT_EQ(group[0], Rank{9});
  EXPECT_EQ(group.right(), Rank{5});
  EXPECT_EQ(group.left(), Rank{9});
}

TEST(Group, NeighboursStandInACircle) {
  const Group group = Group::world(4, Rank{3});
  EXPECT_EQ(group.right(), Rank{0});
  EXPECT_EQ(group.right(6), Rank{1});
  EXPECT_EQ(group.left(3), Rank{0});
  EXPECT_EQ(group.left(4), Rank{3});
  EXPECT_EQ(group.wrap(-1), 3);
  EXPECT_EQ(group.wrap(-9), 3);
  EXPECT_EQ(group.wrap(8), 0);
}

TEST(Group, OfOneIsItsOwnNeighbour) {
  const Group group{{Rank{6}}, Rank{6}};
  EXPECT_EQ(group.right(), Rank{6});
  EXPECT_EQ(group.left(5), Rank{6});
}

TEST(Group, RefusesRanksThatDoNotFit) {
  EXPECT_THROW(Group::world(4, Rank{4}), InvalidArgument);
  EXPECT_THROW(Group::world(4, Rank{-1}), InvalidArgument);
  EXPECT_THROW(Group::world(0, Rank{0}), InvalidArgument);
  EXPECT_THROW((Group{{Rank{1}, Rank{2}}, Rank{3}}), InvalidArgument);
  EXPECT_THROW((Group{{Rank{1}, Rank{2}, Rank{1}}, Rank{2}}), InvalidArgument);
}

TEST(NthBlock, BlocksAreAdjacentAndCoverTheWhole) {
  for (const std::uint64_t count : {0u, 1u, 6u, 7u, 8u, 100u})
    for (int blocks = 1; blocks <= 9; ++blocks) {
      Elements next;
      for (int i = 0; i < blocks; ++i) {
        const Range block = nth_block(Elements{count}, blocks, i);
        EXPECT_EQ(block.offset, next) << count << " / " << blocks << ", block " << i;
        next = block.end();
      }
      EXPECT_EQ(next, Elements{count});
    }
}

TEST(NthBlock, LengthsDifferByOneAtMostAndTheLongerComeFirst) {
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(nth_block(Elements{13}, 5, i).length, Elements{i < 3 ? 3u : 2u});
}

TEST(NthBlock, FewerElementsThanBlocksLeaveTheLastOnesEmpty) {
  EXPECT_EQ(nth_block(Elements{2}, 4, 1), (Range{Elements{1}, Elements{1}}));
  EXPECT_TRUE(nth_block(Elements{2}, 4, 2).empty());
  EXPECT_TRUE(nth_block(Elements{0}, 4, 0).empty());
}

TEST(NthBlock, WorksForCountsNearTheLimit) {
  const Elements huge{std::uint64_t{1} << 62};
  EXPECT_EQ(nth_block(huge, 3, 2).end(), huge);
}

TEST(Span, PartsCountFromItsStart) {
  const Span span{Buffer::output, Elements{10}, Elements{5}};
  EXPECT_EQ(span.part({Elements{2}, Elements{3}}),
            (Span{Buffer::output, Elements{12}, Elements{3}}));
  EXPECT_EQ(span.first(Elements{2}).end(), Elements{12});
}

}  // namespace
}  // namespace capstan
