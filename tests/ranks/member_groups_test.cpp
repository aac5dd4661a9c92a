// SPDX-License-Identifier: Apache-2.0

// Groups that their members form alone, while the other ranks do something else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <thread>

#include "capstan/communicator.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

float sum_of_ranks(Communicator& group) {
  auto value = static_cast<float>(group.rank() + 1);
  group.all_reduce(std::span{&value, 1});
  return value;
}

TEST(Requirement, T30_AGroupIsMadeByItsMembersAlone) {
  std::latch formed{2};
  on_threads(4, bounded_settings(), [&](Communicator& world) {
    if (world.rank() % 2 == 0) return formed.wait();  // in no call at all
    auto group = world.create_group(std::vector{3, 1});
    EXPECT_EQ(group.size(), 2);
    EXPECT_EQ(group.rank(), world.rank() == 3 ? 0 : 1);
    EXPECT_EQ(group.world_rank(0), 3);
    EXPECT_EQ(sum_of_ranks(group), 3);
    formed.count_down();
  });
}

TEST(MemberGroups, MessagesOfTheProgramAreNotMixedUpWithThoseThatFormIt) {
  on_threads(3, bounded_settings(), [&](Communicator& world) {
    int got = -1;
    const Work posted = world.start_receive(std::span{&got, 1});  // any source, any tag
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    auto group = world.create_group(all);
    EXPECT_FALSE(world.try_probe());
    EXPECT_EQ(sum_of_ranks(group), 6);
    const int own = world.rank();
    world.send(std::span{&own, 1}, (own + 1) % 3, 5);
    posted.wait();
    EXPECT_EQ(got, (own + 2) % 3);
    EXPECT_EQ(posted.message().value().tag, 5);
  });
}

TEST(MemberGroups, SeveralAreFormedInAChainAndOneInsideAnother) {
  on_threads(4, bounded_settings(), [&](Communicator& world) {
    // Rank r forms a group with r - 1 first, and then one with r + 1.
    for (int r = std::max(1, world.rank()); r <= std::min(3, world.rank() + 1); ++r) {
      auto pair = world.create_group(std::vector{r - 1, r});
      EXPECT_EQ(sum_of_ranks(pair), 3);
    }
    auto alone = world.create_group(std::vector{world.rank()});
    EXPECT_EQ(sum_of_ranks(alone), 1);
    if (world.rank() == 0) return;
    auto three = world.create_group(std::vector{1, 2, 3}, 9);
    auto inner = three.subgroup(std::vector{0, 1});
    EXPECT_EQ(inner.has_value(), three.rank() < 2);
    if (inner) {
      EXPECT_EQ(sum_of_ranks(*inner), 3);
    }
  });
}

TEST(MemberGroups, BuffersThatAreSharedStayShared) {
  on_threads(3, bounded_settings(), [&](Communicator& world) {
    auto buffer = world.allocate<float>(10'000);
    if (world.rank() == 1) return world.barrier();
    auto group = world.create_group(std::vector{0, 2});
    std::ranges::fill(buffer.span(), 1.5f);
    group.all_reduce(buffer.span());
    EXPECT_THAT(buffer.span(), testing::Each(3.0f));
    world.barrier();
  });
}

TEST(MemberGroups, AMemberThatDoesNotComeIsNamedAndTheParentStaysUsable) {
  std::latch told{2};
  Settings settings = bounded_settings();
  settings.timeout = 300ms;
  on_threads(4, settings, [&](Communicator& world) {
    if (world.rank() == 1 || world.rank() == 2) {
      try {
        (void)world.create_group(std::vector{1, 2, 3});
        ADD_FAILURE() << "formed without rank 3";
      } catch (const TimedOut& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("create_group()"), HasSubstr("rank 3")));
        ASSERT_EQ(error.culprits().size(), 1U);
        EXPECT_EQ(error.culprits().front().world_rank, Rank{3});
      }
      told.count_down();
    }
    told.wait();
    EXPECT_EQ(sum_of_ranks(world), 10);
  });
}

TEST(MemberGroups, WhoIsNoMemberAndTagsOutOfRangeAreRefused) {
  on_threads(2, bounded_settings(), [&](Communicator& world) {
    EXPECT_THROW((void)world.create_group(std::vector{1 - world.rank()}), InvalidArgument);
    EXPECT_THROW((void)world.create_group(std::vector<int>{}), InvalidArgument);
    EXPECT_THROW((void)world.create_group(std::vector{0, 1, 1}), InvalidArgument);
    EXPECT_THROW((void)world.create_group(std::vector{0, 2}), InvalidArgument);
    EXPECT_THROW((void)world.create_group(std::vector{0, 1}, -1), InvalidArgument);
    const int tag = (1 << 30) + 1;
    EXPECT_THROW(world.send(std::span{&tag, 1}, 0, tag), InvalidArgument);
  });
}

}  // namespace
}  // namespace capstan
