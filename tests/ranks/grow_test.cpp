// SPDX-License-Identifier: Apache-2.0

// Communicators that new ranks join.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"
#include "core/bootstrap/meeting.hpp"
#include "tests/free_port.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* job_secret = "the secret of the jobs of these tests";

Settings growing_settings(int hosts = 1) {
  Settings settings = bounded_settings();
  settings.virtual_hosts = hosts;
  return settings;
}

/// A place of this process and this test alone.
MeetingPlace named(const std::string& name) {
  return {.id = {}, .name = fmt::format("{}, process {}", name, ::getpid()), .secret = job_secret};
}

/// Whether a call of all ranks gives the right sum.
void expect_sum(Communicator& group, int ranks) {
  EXPECT_EQ(group.size(), ranks);
  std::vector<int> sums(1000, group.rank() + 1);
  group.all_reduce(std::span{sums});
  EXPECT_EQ(sums, std::vector<int>(1000, ranks * (ranks + 1) / 2));
}

/// A thread whose errors are failures of the test.
std::jthread in_thread(std::function<void()> body) {
  return std::jthread{[body = std::move(body)] {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }};
}

/// A new rank that joins and makes one right call.
std::jthread new_rank(const MeetingPlace& place, const Settings& settings, int ranks,
                      int wanted = -1) {
  return in_thread([=] {
    Communicator all = Communicator::join_growing(place, settings, wanted);
    if (wanted >= 0) {
      EXPECT_EQ(all.rank(), wanted);
    }
    expect_sum(all, ranks);
    all.barrier();
  });
}

class Growing : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(OnHosts, Growing, ::testing::Values(1, 3));

TEST_P(Growing, NewRanksJoinByAnId) {
  const MeetingPlace place{.id = create_unique_id()};
  const Settings settings = growing_settings(GetParam());
  const auto one = new_rank(place, settings, 5), other = new_rank(place, settings, 5);
  on_threads(3, settings, [&](Communicator& world) {
    Communicator all = world.grow(2, world.rank() == 1 ? place : MeetingPlace{});
    EXPECT_EQ(all.rank(), world.rank());
    expect_sum(all, 5);
    expect_sum(world, 3);
    all.barrier();
  });
}

TEST_P(Growing, ByANameAndASecretAgainAndAgain) {
  const MeetingPlace place = named("again");
  const Settings settings = growing_settings(GetParam());
  constexpr int rounds = 3;
  std::vector<std::jthread> spares;
  for (int i = 0; i < rounds; ++i)  // all wait from the start: each takes part when its turn comes
    spares.push_back(in_thread([&] {
      Communicator all = Communicator::join_growing(place, settings);
      expect_sum(all, all.size());
      while (all.size() < 2 + rounds) {
        all = all.grow(1, place);
        expect_sum(all, all.size());
      }
      all.barrier();
    }));
  on_threads(2, settings, [&](Communicator& world) {
    Communicator all = world.grow(1, place);
    expect_sum(all, 3);
    while (all.size() < 2 + rounds) {
      all = all.grow(1, place);
      expect_sum(all, all.size());
    }
    all.barrier();
  });
}

TEST(GrowingTo, PlacesThatNewRanksAskFor) {
  const MeetingPlace place = named("places");
  const Settings settings = growing_settings();
  const auto last = new_rank(place, settings, 3, 2), first = new_rank(place, settings, 3, 1);
  on_threads(1, settings, [&](Communicator& world) {
    Communicator all = world.grow(2, place);
    expect_sum(all, 3);
    all.barrier();
  });
}

TEST(GrowingTo, AnAddressOfAMember) {
  MeetingPlace place = named("address");
  place.name += fmt::format("@127.0.0.1:{}", free_port());
  const Settings settings = growing_settings();
  const auto joiner = new_rank(place, settings, 3);
  on_threads(2, settings, [&](Communicator& world) {
    Communicator all = world.grow(1, place);
    expect_sum(all, 3);
    all.barrier();
  });
}

TEST(GrowingTo, AGroupThatIsAWorldOfItsOwnThen) {
  const MeetingPlace place = named("group");
  const Settings settings = growing_settings();
  const auto joiner = new_rank(place, settings, 3);
  on_threads(3, settings, [&](Communicator& world) {
    auto group = world.split(world.rank() == 1 ? -1 : 0);
    if (!group) return;
    Communicator all = group->grow(1, place);
    expect_sum(all, 3);
    EXPECT_EQ(all.world_rank(1), 1);
    all.barrier();
  });
}

/// The text of the error, which is the same kind on all members, and the communicator works on.
std::string refused(Communicator& world, int joiners, const MeetingPlace& place) {
  std::string text;
  try {
    (void)world.grow(joiners, place);
    ADD_FAILURE() << "it grew";
  } catch (const BootstrapError& error) {
    text = error.what();
  }
  expect_sum(world, world.size());
  return text;
}

TEST(GrowingRefuses, ToWaitLongerForANewRankThatDoesNotCome) {
  Settings settings = growing_settings();
  settings.join_timeout = 500ms;
  const MeetingPlace place = named("nobody");
  on_threads(3, settings, [&](Communicator& world) {
    EXPECT_THAT(refused(world, 2, place), HasSubstr("ranks 3 and 4 never joined"));
    Communicator same = world.shrink();
    expect_sum(same, 3);
  });
}

TEST(GrowingRefuses, ToGoOnWithANewRankThatHasDied) {
  const Settings settings = growing_settings();
  for (const MeetingPlace& place : {named("died"), MeetingPlace{.id = create_unique_id()}}) {
    const auto dying = in_thread([&] {
      const MeetingSeat seat = take_seat(meeting_at(place, {}), -1, Deadline::in(60s));
      EXPECT_EQ(seat.rank, 2);
    });
    on_threads(2, settings, [&](Communicator& world) {
      EXPECT_THAT(refused(world, 1, place), HasSubstr("rank 2 left before all had met"));
    });
  }
}

TEST(GrowingRefuses, AStrangerWithoutTheSecret) {
  MeetingPlace place = named("stranger"), wrong = place;
  wrong.secret = "another secret of sixteen";
  const Settings settings = growing_settings();
  std::atomic<bool> was_refused = false;
  std::jthread joiner;
  const auto stranger = in_thread([&] {
    try {
      (void)Communicator::join_growing(wrong, settings);
      ADD_FAILURE() << "it joined";
    } catch (const BootstrapError& error) {
      EXPECT_EQ(error.code(), ErrorCode::wrong_secret) << error.what();
    }
    was_refused = true;
    joiner = new_rank(place, settings, 3);
  });
  on_threads(2, settings, [&](Communicator& world) {
    Communicator all = world.grow(1, place);
    EXPECT_TRUE(was_refused);
    expect_sum(all, 3);
    all.barrier();
  });
}

TEST(GrowingRefuses, WithoutAMember) {
  const MeetingPlace place = named("member");
  const Settings settings = growing_settings();
  const auto joiner = new_rank(place, settings, 3);
  on_threads(3, settings, [&](Communicator& world) {
    if (world.rank() == 1) {
      const Communicator mine = std::move(world);
      return;
    }
    try {
      (void)world.grow(1, place);
      ADD_FAILURE() << "it grew";
    } catch (const PeerLost& error) {
      EXPECT_EQ(error.lost(), Rank{1});
      EXPECT_THAT(error.what(), HasSubstr("call shrink() first"));
    }
    Communicator rest = world.shrink();
    Communicator all = rest.grow(1, place);
    expect_sum(all, 3);
    all.barrier();
  });
}

/// A member leaves while the others wait for the new rank.
TEST(GrowingRefuses, WithoutAMemberThatGoesMeanwhile) {
  const MeetingPlace place = named("meanwhile");
  const Settings settings = growing_settings();
  on_threads(3, settings, [&](Communicator& world) {
    if (world.rank() == 1) {
      std::jthread aborter{[&] {
        std::this_thread::sleep_for(50ms);
        world.abort("this rank has changed its mind");
      }};
      EXPECT_THROW((void)world.grow(1, place), Aborted);
      return;
    }
    EXPECT_THROW((void)world.grow(1, place), Aborted);
  });
}

TEST(GrowingRefuses, ArgumentsThatDiffer) {
  const Settings settings = growing_settings();
  on_threads(2, settings, [&](Communicator& world) {
    const MeetingPlace place = named("differ"), other = named("from this");
    EXPECT_THROW((void)world.grow(1 + world.rank(), place), Mismatch);
    EXPECT_THROW((void)world.grow(1, world.rank() == 0 ? place : other), Mismatch);
    EXPECT_THROW((void)world.grow(1, world.rank() == 0 ? place : MeetingPlace{}), Mismatch);
    EXPECT_THROW((void)world.grow(1, {.id = create_unique_id()}), Mismatch);
    EXPECT_THROW((void)world.grow(1), InvalidArgument);
    EXPECT_THROW((void)world.grow(-1, place), InvalidArgument);
    EXPECT_THROW((void)world.grow(1, {.id = {}, .name = "short", .secret = "short"}),
                 InvalidArgument);
    EXPECT_THROW(
        (void)world.grow(1, {.id = {}, .name = "far@192.0.2.1:29472", .secret = job_secret}),
        InvalidArgument);
    expect_sum(world, 2);
  });
}

TEST(GrowingRefuses, WhereAnotherCommunicatorMeetsItsNewRanks) {
  const MeetingPlace place = named("taken");
  const Settings settings = growing_settings();
  std::atomic<int> grown = 0, not_grown = 0;
  std::jthread joiner;
  on_threads(4, settings, [&](Communicator& world) {
    auto half = world.split(world.rank() / 2);
    bool has_grown = false;
    try {
      Communicator all = half->grow(1, place);
      has_grown = true;
      expect_sum(all, 3);
      all.barrier();
    } catch (const SystemError& error) {  // of the rank that would have hosted the store
      EXPECT_THAT(error.what(), HasSubstr("another process listens there"));
    } catch (const BootstrapError&) {
    }
    ++(has_grown ? grown : not_grown);
    expect_sum(*half, 2);
    if (!has_grown && half->rank() == 0) joiner = new_rank(place, settings, 3);
  });
  EXPECT_EQ(grown, 2);
  EXPECT_EQ(not_grown, 2);
}

TEST(GrowingRefuses, WhereOthersShrink) {
  const Settings settings = growing_settings();
  on_threads(3, settings, [&](Communicator& world) {
    if (world.rank() == 1) {
      EXPECT_THROW((void)world.grow(1, named("shrink")), Mismatch);
    }
    Communicator same = world.shrink();
    expect_sum(same, 3);
  });
}

TEST(GrowingRefuses, ASecondThreadOfARank) {
  Settings settings = growing_settings();
  settings.join_timeout = 300ms;
  on_threads(1, settings, [&](Communicator& world) {
    std::atomic<bool> found = false;
    const auto grows = in_thread([&] {
      while (!found) try {
          (void)world.grow(1, named("thread"));
        } catch (const InvalidArgument&) {  // the other thread is in shrink()
        } catch (const BootstrapError&) {
        }
    });
    while (!found) try {
        (void)world.shrink();
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("another thread is in shrink() or grow()"));
        found = true;
      }
  });
}

TEST(GrowingRefuses, NewRanksThatAreTooMany) {
  Settings settings = growing_settings();
  const MeetingPlace place{.id = create_unique_id()};
  Settings impatient = settings;
  impatient.join_timeout = 2s;
  std::atomic<int> joined = 0, refused_ones = 0;
  std::vector<std::jthread> joiners;
  for (int i = 0; i < 3; ++i)
    joiners.push_back(in_thread([&] {
      try {
        Communicator all = Communicator::join_growing(place, impatient);
        ++joined;
        expect_sum(all, 3);
        all.barrier();
      } catch (const BootstrapError&) {
        ++refused_ones;
      }
    }));
  on_threads(2, settings, [&](Communicator& world) {
    Communicator all = world.grow(1, place);
    expect_sum(all, 3);
    all.barrier();
  });
  joiners.clear();
  EXPECT_EQ(joined, 1);
  EXPECT_EQ(refused_ones, 2);
}

}  // namespace
}  // namespace capstan
