// SPDX-License-Identifier: Apache-2.0

// The ranks that are blamed when others wait in vain, and the texts of errors and reports about it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Settings impatient(int virtual_hosts = 0) {
  Settings settings = bounded_settings();
  settings.timeout = 1s;
  settings.virtual_hosts = virtual_hosts;
  return settings;
}

struct Told {
  std::string kind, text;
  std::vector<Culprit> culprits;
};

/// The error of a call.
template <class Call>
Told told_by(const Call& call) {
  try {
    call();
  } catch (const TimedOut& error) {
    return {"TimedOut", error.what(), error.culprits()};
  } catch (const PeerLost& error) {
    return {"PeerLost", error.what(), error.culprits()};
  } catch (const Mismatch& error) {
    return {"Mismatch", error.what(), {}};
  }
  return {"nothing", "", {}};
}

void expect_blame(const Told& told, std::vector<int> world_ranks) {
  std::vector<int> blamed;
  for (const Culprit& culprit : told.culprits) blamed.push_back(culprit.world_rank.value());
  EXPECT_EQ(blamed, world_ranks) << told.kind << ": " << told.text;
}

/// Runs `wait` on all ranks but `absent`, which stays away until they have been told.
template <class Wait>
void while_absent(int ranks, int absent, const Settings& settings, Wait wait) {
  std::latch told{ranks - 1};
  on_threads(ranks, settings, [&](Communicator& world) {
    world.barrier();
    if (world.rank() == absent) return told.wait();
    const Told error = told_by([&] { wait(world); });
    told.count_down();
    told.wait();  // nobody leaves before the others have been told
    EXPECT_EQ(error.kind, "TimedOut") << error.text;
    expect_blame(error, {absent});
  });
}

class BlameVariants : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Hosts, BlameVariants, ::testing::Values(0, 2));

TEST_P(BlameVariants, TheEndOfAChainOfMessagesIsBlamedByAll) {
  while_absent(4, 3, impatient(GetParam()), [](Communicator& world) {
    int number = 0;
    world.receive(std::span{&number, 1}, world.rank() + 1, 5);
  });
}

TEST_P(BlameVariants, WhoIsAbsentIsBlamedInEveryCall) {
  while_absent(3, 1, impatient(GetParam()), [](Communicator& world) {
    for (int n = 0;; ++n) {  // ranks may run ahead in some of them
      std::int32_t value = 1;
      world.broadcast(std::span{&value, 1}, n % 3);
    }
  });
  while_absent(4, 2, impatient(GetParam()), [](Communicator& world) {
    std::vector<float> data(100'000);
    world.all_reduce(data);
  });
}

TEST_P(BlameVariants, AWaitInAGroupLeadsToOneInTheWorld) {
  std::latch told{3};
  on_threads(4, impatient(GetParam()), [&](Communicator& world) {
    auto group = world.subgroup(std::vector{1, 2, 3});
    if (world.rank() == 0) return told.wait();
    int number = 0;
    const Told error = told_by([&] {
      if (world.rank() == 2)
        world.receive(std::span{&number, 1}, 0);  // which sends nothing
      else
        group->all_reduce(std::span{&number, 1});
    });
    told.count_down();
    told.wait();
    expect_blame(error, {0});
    ASSERT_FALSE(error.culprits.empty());
    EXPECT_EQ(error.culprits.front().rank.has_value(), world.rank() == 2)
        << "no member of the group";
    if (world.rank() != 2) {
      EXPECT_THAT(error.text, AllOf(HasSubstr("of the group of ranks 1, 2 and 3 of the world"),
                                    HasSubstr("rank 0 of the world")));
    }
  });
}

/// Rank 1 makes another call than the ranks that shrink or grow, each of which waits for the other.
TEST_P(BlameVariants, RanksThatShrinkOrGrowSayWhomTheyWaitFor) {
  for (const bool grows : {false, true})
    on_threads(3, impatient(GetParam()), [&](Communicator& world) {
      if (world.rank() == 1) {
        const Told error = told_by([&] {
          int number = 0;
          world.all_reduce(std::span{&number, 1});
        });
        EXPECT_EQ(error.kind, "TimedOut");
        EXPECT_THAT(error.text, HasSubstr("waits for itself by way of others"));
        EXPECT_THAT(error.text, HasSubstr(grows ? "in grow()" : "in shrink()"));
        EXPECT_THAT(error.culprits, ::testing::SizeIs(::testing::Ge(2U)));
      } else if (grows) {
        EXPECT_THROW(
            (void)world.grow(1, {.id = {}, .name = "a test", .secret = "of this test alone"}),
            TimedOut);
      } else {
        const Told error = told_by([&] { (void)world.shrink(); });
        EXPECT_THAT(error.text, HasSubstr("for rank 1 to call shrink()"));
        expect_blame(error, {1});
        return;
      }
      if (grows) {
        EXPECT_EQ(world.shrink().size(), 3);
      }
    });
}

TEST(Blame, CulpritsOfAGroupHaveBothRanks) {
  std::latch told{1};
  on_threads(3, impatient(), [&](Communicator& world) {
    auto group = world.subgroup(std::vector{2, 1});
    if (world.rank() == 0) return;
    if (world.rank() == 2) return told.wait();
    const Told error = told_by([&] { group->barrier(); });
    told.count_down();
    expect_blame(error, {2});
    ASSERT_FALSE(error.culprits.empty());
    EXPECT_EQ(error.culprits.front().rank, Rank{0});
    EXPECT_EQ(error.culprits.front().state, Culprit::State::absent);
    EXPECT_THAT(error.text, HasSubstr("rank 0 (rank 2 of the world)"));
  });
}

TEST(Blame, RanksThatWaitForEachOtherAreAllNamed) {
  on_threads(2, impatient(), [](Communicator& world) {
    int number = 0;
    const Told error = told_by([&] { world.receive(std::span{&number, 1}, 1 - world.rank()); });
    EXPECT_THAT(error.text, AllOf(HasSubstr("any tag"), Not(HasSubstr("-1"))));
    EXPECT_FALSE(error.culprits.empty());
    world.barrier();
  });
}

/// Nobody else can send it, and no other rank is to blame.
TEST(Blame, ARankThatReceivesFromItselfIsNamed) {
  std::latch told{3};
  on_threads(3, impatient(), [&](Communicator& world) {
    world.barrier();
    int number = 0;
    const auto wait = [&] {
      if (world.rank() == 2) return static_cast<void>(world.probe(2, 5));
      world.receive(std::span{&number, 1}, 1, 5);  // of rank 1 itself, or of one that waits for it
    };
    const Told error = told_by(wait);
    told.arrive_and_wait();
    EXPECT_EQ(error.kind, "TimedOut");
    expect_blame(error, {world.rank() == 2 ? 2 : 1});
    if (world.rank() == 0) return;  // rank 1 may have given up before
    EXPECT_THAT(
        error.text,
        AllOf(HasSubstr("waits for itself, in a receive with tag 5, and has sent itself no such"),
              HasSubstr("send the message before the receive waits")));
  });
}

TEST(Blame, ARankAloneThatReceivesFromItselfIsNamed) {
  on_threads(1, impatient(), [&](Communicator& world) {
    int number = 0;
    const Told error = told_by([&] { world.receive(std::span{&number, 1}, 0, 5); });
    EXPECT_EQ(error.kind, "TimedOut");
    expect_blame(error, {0});
    EXPECT_EQ(told_by([&] { world.probe(0, 5); }).kind, "TimedOut");
  });
}

/// A rank that acts after its own wait has failed may end the waits of others.
TEST(Blame, WhoLeavesAfterAVainWaitIsNotBlamed) {
  std::latch told{2};
  auto world = Communicator::local_world(3, impatient());
  std::jthread middle{[&, communicator = std::move(world[1])]() mutable {
    int number = 0;
    expect_blame(told_by([&] { communicator.receive(std::span{&number, 1}, 2); }), {2});
    told.count_down();
  }};
  std::jthread first{[&] {
    int number = 0;
    std::this_thread::sleep_for(100ms);
    expect_blame(told_by([&] { world[0].receive(std::span{&number, 1}, 1); }), {2});
    told.count_down();
  }};
  told.wait();
}

TEST(Blame, AProbeSaysWhatItWaitedFor) {
  while_absent(2, 1, impatient(), [](Communicator& world) { world.probe(); });
  on_threads(2, impatient(), [](Communicator& world) {
    world.barrier();
    if (world.rank() == 0) {
      EXPECT_THAT(told_by([&] { world.probe(); }).text,
                  AllOf(HasSubstr("any source"), HasSubstr("any tag"), Not(HasSubstr("-1"))));
    }
    world.barrier();
  });
}

TEST(Report, SaysFromAnyThreadWhoWaitsForWhom) {
  std::latch reported{1};
  Settings patient = bounded_settings();
  on_threads(3, patient, [&](Communicator& world) {
    world.barrier();
    std::vector<std::int64_t> data(10);
    if (world.rank() == 2) reported.wait();
    if (world.rank() != 0) return world.all_reduce(data);
    EXPECT_THAT(world.report(), HasSubstr("No operation is pending"));
    std::jthread waiter{[&] { world.all_reduce(data); }};
    const auto end = Deadline::in(60s);
    nlohmann::json json;
    const auto is_there = [&] {
      json = nlohmann::json::parse(world.report_json());
      return json["entries"].size() == 1 && json["culprits"].size() == 1 &&
             json["ranks"][1].contains("waits");
    };
    while (!is_there() && !end.expired()) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(json["culprits"][0]["world_rank"], 2) << json.dump(2);
    EXPECT_EQ(json["culprits"][0]["state"], "absent");
    EXPECT_EQ(json["entries"][0]["profiling_name"], "capstan:all_reduce");
    EXPECT_EQ(json["entries"][0]["state"], "started");
    EXPECT_GE(json["entries"][0]["step"], 1);
    EXPECT_GE(json["entries"][0]["collective_seq_id"], 2);
    EXPECT_THAT(world.report(), AllOf(HasSubstr("Verdict: rank 2"), HasSubstr("rank 1: waits for"),
                                      HasSubstr("all_reduce(10 x i64, sum)"), HasSubstr("step ")));
    reported.count_down();
  });
}

TEST(Naming, DifferentListsOfASubgroupAreShown) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const std::vector<int> own = world.rank() == 2 ? std::vector{0, 2} : std::vector{0, 1};
    EXPECT_THAT(told_by([&] { (void)world.subgroup(own); }).text,
                AllOf(HasSubstr("subgroup()"), HasSubstr("rank 0 passed the ranks 0, 1,"),
                      HasSubstr("rank 2 passed 0, 2")));
    EXPECT_TRUE(world.subgroup(std::vector{0, 1, 2})) << "the communicator still works";
  });
}

class NamingVariants : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Hosts, NamingVariants, ::testing::Values(0, 3));

/// Both calls are named on both ranks.
template <class Call>
void expect_mismatch(int virtual_hosts, Call call, const std::vector<std::string>& words) {
  Settings settings = bounded_settings();
  settings.virtual_hosts = virtual_hosts;
  on_threads(3, settings, [&](Communicator& world) {
    const Told error = told_by([&] {
      for (int n = 0; n < 1000; ++n) call(world);
    });
    EXPECT_EQ(error.kind, "Mismatch") << error.text;
    for (const std::string& word : words) EXPECT_THAT(error.text, HasSubstr(word));
    EXPECT_THAT(error.text, Not(HasSubstr("counts #")));
  });
}

TEST_P(NamingVariants, CallsAreNamedAsTheProgramMadeThem) {
  expect_mismatch(GetParam(),
                  [](Communicator& world) {
                    if (world.rank() == 1)
                      world.barrier();
                    else
                      (void)world.split(0);
                  },
                  {"split()", "barrier()"});
}

TEST_P(NamingVariants, OperationsAndCountsAreNamed) {
  expect_mismatch(GetParam(),
                  [](Communicator& world) {
                    std::vector<int> data(4);
                    const char* name = world.rank() == 1 ? "widest" : "nearest";
                    world.all_reduce(data, data,
                                     Reducer::of<int>(name, [](int a, int b) { return a + b; }));
                  },
                  {"widest", "nearest"});
  expect_mismatch(GetParam(),
                  [](Communicator& world) {
                    const std::vector<std::size_t> counts{1, 2, world.rank() == 1 ? 4u : 3u};
                    std::vector<int> mine(counts[static_cast<std::size_t>(world.rank())]),
                        all(6 + (world.rank() == 1 ? 1 : 0));
                    world.all_gather_v(mine, all, counts);
                  },
                  {"counts 1, 2, 3 of i32", "counts 1, 2, 4 of i32", "the count of rank 2 is "});
}

/// Programs wait in slices to look for signals meanwhile, as Python's do. However short slices are,
/// their rank tells what it waits for, and does not take it back between them.
TEST(WaitsInSlices, AreToldByTheirRank) {
  std::atomic<bool> seen = false;
  on_threads(2, bounded_settings(), [&](Communicator& world) {
    int number = 0;
    if (world.rank() == 0) {
      const Work work = world.start_receive(std::span{&number, 1}, 1, 5);
      while (!seen) work.wait_for(1ms);
      return work.wait();
    }
    const Deadline limit = Deadline::in(30s);
    for (int in_a_row = 0; in_a_row < 20 && !limit.expired();) {
      const bool told = world.report().find("rank 0: waits for") != std::string::npos;
      in_a_row = told ? in_a_row + 1 : 0;
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_FALSE(limit.expired()) << world.report();
    seen = true;
    world.send(std::span<const int>{&number, 1}, 0, 5);
  });
}

}  // namespace
}  // namespace capstan
