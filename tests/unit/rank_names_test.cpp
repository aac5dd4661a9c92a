// SPDX-License-Identifier: Apache-2.0

// How errors and reports name ranks: those of the world, and members of groups.

#include "core/engine/control/rank_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using State = Culprit::State;
using ::testing::ElementsAre;

const ByRank<Process> processes{
    {.host = "a", .id = 10}, {.host = "b", .id = 11}, {.host = "c", .id = 12}};

TEST(RankNames, OfTheWorld) {
  const RankNames names{{0, 1, 2}, processes};
  EXPECT_EQ(names.brief(Rank{2}), "rank 2");
  EXPECT_EQ(names.full(Rank{2}), "rank 2 (host c, process 12)");
  EXPECT_EQ(names.of_group(), "");
  EXPECT_EQ(names.member(Rank{1}), Rank{1});
}

/// Some of its members have the rank that they have in the world.
TEST(RankNames, OfAGroup) {
  const RankNames names{{0, 2}, processes};
  EXPECT_EQ(names.brief(Rank{0}), "rank 0 (rank 0 of the world)");
  EXPECT_EQ(names.full(Rank{2}), "rank 1 (rank 2 of the world, host c, process 12)");
  EXPECT_EQ(names.brief(Rank{1}), "rank 1 of the world");
  EXPECT_EQ(names.of_group(), " of the group of ranks 0 and 2 of the world");
  EXPECT_EQ(names.member(Rank{1}), std::nullopt);
  const Culprit culprit = names.culprit(Rank{2}, State::dead);
  EXPECT_EQ(culprit.rank, Rank{1});
  EXPECT_EQ(culprit.world_rank, Rank{2});
  EXPECT_EQ(culprit.host, "c");
  EXPECT_EQ(culprit.process_id, 12);
}

/// It has as many members as the world.
TEST(RankNames, OfAGroupOfAllInAnotherOrder) {
  const RankNames names{{2, 1, 0}, processes};
  EXPECT_EQ(names.brief(Rank{1}), "rank 1 (rank 1 of the world)");
  EXPECT_EQ(names.brief(Rank{0}), "rank 2 (rank 0 of the world)");
  EXPECT_EQ(names.of_group(), " of the group of ranks 0, 1 and 2 of the world");
}

TEST(RankNames, OfManyTheFirstAreListed) {
  std::vector<Rank> ranks;
  EXPECT_EQ(list_of(ranks), "its peers");
  for (int rank = 0; rank < 20; ++rank) ranks.emplace_back(rank);
  EXPECT_EQ(list_of(std::span{ranks}.first(1)), "rank 0");
  EXPECT_EQ(list_of(std::span{ranks}.first(3)), "ranks 0, 1 and 2");
  EXPECT_EQ(list_of(ranks),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 4 more");
}

}  // namespace
}  // namespace capstan
