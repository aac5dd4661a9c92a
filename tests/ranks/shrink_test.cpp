// SPDX-License-Identifier: Apache-2.0

// Communicators of the ranks that are left.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Settings on_hosts(int hosts) {
  Settings settings = bounded_settings();
  settings.virtual_hosts = hosts;
  return settings;
}

/// The sum of the ranks of the world that are members.
int sum_of_members(Communicator& group) {
  int value = group.world_rank(group.rank());
  group.all_reduce(std::span{&value, 1});
  return value;
}

int sum_without(int ranks, const std::set<int>& gone) {
  int sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += gone.contains(rank) ? 0 : rank;
  return sum;
}

/// Moves the communicator into a variable that ends with the call: its rank is gone.
void leave(Communicator& world) {
  const Communicator mine = std::move(world);
}

class Shrinking : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OnHosts, Shrinking, ::testing::Values(1, 2));

TEST_P(Shrinking, AWorkingCommunicatorGivesOneOfTheSameRanks) {
  on_threads(4, on_hosts(GetParam()), [](Communicator& world) {
    Communicator same = world.shrink();
    EXPECT_EQ(same.size(), 4);
    EXPECT_EQ(same.rank(), world.rank());
    EXPECT_EQ(sum_of_members(same), 6);
    EXPECT_EQ(sum_of_members(world), 6);
  });
}

TEST_P(Shrinking, ExcludedRanksTakeNoPart) {
  on_threads(4, on_hosts(GetParam()), [](Communicator& world) {
    if (world.rank() == 1) return;
    Communicator rest = world.shrink({.exclude = {1}});
    EXPECT_EQ(rest.size(), 3);
    EXPECT_EQ(sum_of_members(rest), 5);
  });
}

TEST_P(Shrinking, AfterAFailureTheOthersGoOn) {
  on_threads(5, on_hosts(GetParam()), [](Communicator& world) {
    if (world.rank() == 0 || world.rank() == 3) return leave(world);
    EXPECT_THROW(sum_of_members(world), PeerLost);
    Communicator rest = world.shrink();
    EXPECT_EQ(rest.size(), 3);
    EXPECT_EQ(sum_of_members(rest), 7);
    EXPECT_THROW(sum_of_members(world), PeerLost) << "the parent stays as it is";
  });
}

/// One rank after another leaves what is left, at a random moment.
TEST_P(Shrinking, AgainAndAgain) {
  const int seeds = 4;
  for (int seed = 0; seed < seeds; ++seed)
    on_threads(6, on_hosts(GetParam()), [seed](Communicator& world) {
      std::mt19937 random{static_cast<unsigned>(seed)};
      std::vector<int> order{0, 1, 2, 3, 4, 5};
      std::ranges::shuffle(order, random);
      const int mine = world.rank();
      Communicator current = std::move(world);
      std::set<int> gone;
      for (int round = 0; round < 5; ++round) {
        const int leaver = order[static_cast<std::size_t>(round)];
        const auto calls = random() % 4;
        for (unsigned call = 0; call < calls; ++call)
          EXPECT_EQ(sum_of_members(current), sum_without(6, gone));
        if (leaver == mine) return leave(current);
        gone.insert(leaver);
        try {
          while (true) sum_of_members(current);
        } catch (const PeerLost&) {
        }
        current = current.shrink();
        EXPECT_EQ(current.size(), 6 - static_cast<int>(gone.size()));
        EXPECT_EQ(sum_of_members(current), sum_without(6, gone));
      }
    });
}

/// Ranks leave while the others agree: everybody has the same members, whoever they are.
TEST_P(Shrinking, WhateverHappensMeanwhileAllAgree) {
  const int seeds = 40;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mutex mutex;
    std::vector<std::vector<int>> members;
    on_threads(5, on_hosts(GetParam()), [&](Communicator& world) {
      const int mine = world.rank();
      std::mt19937 random{static_cast<unsigned>(10 * seed + mine)};
      if (mine == seed % 5) return leave(world);
      if (mine == (seed + 1 + seed / 5 % 4) % 5) {
        std::this_thread::sleep_for(std::chrono::microseconds{random() % 400});
        return leave(world);
      }
      Communicator rest = world.shrink();
      std::vector<int> own;
      for (int rank = 0; rank < rest.size(); ++rank) own.push_back(rest.world_rank(rank));
      try {
        const int sum = sum_of_members(rest);
        EXPECT_EQ(sum, std::accumulate(own.begin(), own.end(), 0));
      } catch (const PeerLost&) {  // the second has left behind its back
        rest = rest.shrink();
        EXPECT_EQ(rest.size(), 3);
      }
      const std::lock_guard lock{mutex};
      members.push_back(own);
    });
    ASSERT_EQ(members.size(), 3U);
    EXPECT_EQ(members[0], members[1]) << "seed " << seed;
    EXPECT_EQ(members[0], members[2]) << "seed " << seed;
  }
}

TEST(ShrinkingRefuses, ItsOwnRankAndRanksThatAreNone) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    const auto refused = [&](std::vector<int> excluded) {
      EXPECT_THROW((void)world.shrink({.exclude = std::move(excluded)}), InvalidArgument);
    };
    refused({world.rank()});
    refused({2});
    refused({-1});
    refused({1 - world.rank(), 1 - world.rank()});
    EXPECT_EQ(sum_of_members(world), 1);
  });
}

TEST(ShrinkingRefuses, ToWaitForeverForARankThatDoesNotCall) {
  Settings settings = bounded_settings();
  settings.timeout = 300ms;
  on_threads(3, settings, [](Communicator& world) {
    if (world.rank() == 2) {
      std::this_thread::sleep_for(600ms);  // longer than the others wait
      return;
    }
    for (int attempt = 0; attempt < 2; ++attempt) try {
        (void)world.shrink();
        ADD_FAILURE() << "nobody was missed";
      } catch (const TimedOut& error) {
        EXPECT_THAT(error.what(), HasSubstr("for rank 2 to call shrink()"));
      }
  });
}

TEST(ShrinkingRefuses, ToGoOnAfterAnAbort) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    if (world.rank() == 1) {
      while (!world.async_error()) std::this_thread::sleep_for(1ms);
      return;
    }
    std::jthread aborter{[&] {
      std::this_thread::sleep_for(20ms);
      world.abort("nobody comes");
    }};
    EXPECT_THROW((void)world.shrink(), Aborted);
  });
}

/// The network between two parts breaks: one continues, and the other is told so. The connections
/// of the communicator that is made have the same faults, so nothing is called.
TEST(ShrinkingRefuses, ToSplitAJobInTwo) {
  Settings settings = bounded_settings();
  settings.faults = "reset=0-2@1,reset=0-3@1,reset=0-4@1,reset=1-2@1,reset=1-3@1,reset=1-4@1";
  for (const bool minority_continues : {false, true})
    on_threads(5, settings, [=](Communicator& world) {
      EXPECT_THROW(for (int call = 0; call < 1000; ++call) sum_of_members(world), PeerLost);
      const ShrinkOptions options{.minority_continues = minority_continues};
      if (world.rank() >= 2) {
        const Communicator rest = world.shrink(options);
        EXPECT_EQ(rest.size(), 3);
        EXPECT_EQ(rest.world_rank(rest.rank()), world.rank());
      } else if (minority_continues) {
        const Communicator rest = world.shrink(options);
        EXPECT_EQ(rest.size(), 2);
      } else {
        EXPECT_THROW((void)world.shrink(options), PeerLost);
      }
    });
}

}  // namespace
}  // namespace capstan
