// SPDX-License-Identifier: Apache-2.0

// Communicators whose ranks are on several hosts: threads stand for ranks, and those of different
// virtual hosts share nothing but what is pushed.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <random>
#include <thread>

#include "algorithms/registry.hpp"
#include "perf/measure/cell.hpp"
#include "tests/variants_of.hpp"
#include "tests/ranks/random_messages.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

struct Spread {
  int ranks, hosts;
  bool progress_thread;
};

class AcrossHosts : public ::testing::TestWithParam<Spread> {
 protected:
  static Settings settings() {
    Settings settings = bounded_settings();
    settings.virtual_hosts = GetParam().hosts;
    settings.progress_thread = GetParam().progress_thread;
    settings.chunk = Bytes{4096};
    return settings;
  }
};

INSTANTIATE_TEST_SUITE_P(All, AcrossHosts,
                         ::testing::Values(Spread{2, 2, false}, Spread{3, 2, false},
                                           Spread{4, 2, false}, Spread{5, 4, false},
                                           Spread{3, 3, true}),
                         [](const auto& test) {
                           return std::to_string(test.param.ranks) + "On" +
                                  std::to_string(test.param.hosts) +
                                  (test.param.progress_thread ? "ByThread" : "");
                         });

/// Every algorithm, staged and in packets: small, in one block, in streams, in place and not.
TEST_P(AcrossHosts, EveryAlgorithmIsRight) {
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective))
      for (const char* protocol : {"staged", "inline_packets"}) {
        if (protocol == std::string{"inline_packets"} && has_counts(collective)) continue;
        Settings with_rule = settings();
        with_rule.algorithm =
            std::string{name_of(collective)} + ":" + std::string{algorithm.name} + "/" + protocol;
        on_threads(GetParam().ranks, with_rule, [&](Communicator& world) {
          const auto shapes = shapes_of(collective, world.size());
          // None, a few, one block, and several.
          for (const std::size_t size : {0u, 3u, 6u, 7u})
            for (const bool in_place : {false, true}) {
              const Shape& shape = shapes[size];
              perf::Cell cell{.collective = collective, .shape = shape};
              if (has_root(collective)) cell.shape.root = world.size() - 1;
              cell.in_place = in_place && collective != Collective::all_to_all_v;
              ASSERT_EQ(perf::wrong_values(world, cell), 0u)
                  << name_of(collective) << " " << algorithm.name << "/" << protocol << ", rank "
                  << world.rank() << ", count " << shape.count.value() << ", in place " << in_place;
            }
        });
      }
}

/// Any call may follow any other, with nothing between them.
TEST_P(AcrossHosts, RandomCallsAreRight) {
  on_threads(GetParam().ranks, settings(), [](Communicator& world) {
    std::mt19937 random{7};
    const auto collectives = all_collectives();
    for (int call = 0; call < 100; ++call) {
      const Collective collective = collectives[random() % collectives.size()];
      const auto shapes = shapes_of(collective, world.size());
      perf::Cell cell{.collective = collective, .shape = shapes[random() % shapes.size()]};
      if (has_root(collective)) cell.shape.root = static_cast<int>(random()) & 1;
      ASSERT_EQ(perf::wrong_values(world, cell), 0u) << name_of(collective) << ", call " << call;
    }
  });
}

TEST_P(AcrossHosts, MessagesArriveRightAndInOrder) {
  on_threads(GetParam().ranks, settings(),
             [](Communicator& world) { EXPECT_EQ(RandomMessages(world, 1000, 3).run(), ""); });
}

TEST_P(AcrossHosts, GroupsOfRanksOnSeveralHosts) {
  on_threads(GetParam().ranks, settings(), [](Communicator& world) {
    auto half = world.split(world.rank() % 2, world.rank());
    std::vector<int> in(5000, world.rank()), out(5000);
    for (int i = 0; i < 20; ++i) half->all_reduce(in, out, ReduceOp::sum);
    int expected = 0;
    for (int rank = world.rank() % 2; rank < world.size(); rank += 2) expected += rank;
    EXPECT_EQ(out.front(), expected);
    EXPECT_EQ(out.back(), expected);
    world.barrier();
  });
}

/// A rank that waits for ranks on its host and on others sleeps until one of them wakes it.
TEST_P(AcrossHosts, ALongWaitSleepsThrough) {
  if (GetParam().progress_thread) GTEST_SKIP() << "two that wait at once look after each other";
  on_threads(GetParam().ranks, settings(), [&](Communicator& world) {
    world.barrier();
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{500});
    const auto sleeps = [] {
      rusage usage{};
      ::getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw;
    };
    const auto before = sleeps();
    world.barrier();
    EXPECT_LT(sleeps() - before, 200) << "rank " << world.rank();
  });
}

TEST_P(AcrossHosts, RanksThatDisagreeAreTold) {
  on_threads(GetParam().ranks, settings(), [](Communicator& world) {
    std::vector<float> in(100, 1), out(100);
    const std::size_t count = world.rank() == 1 ? 40 : 50;
    const auto disagree = [&] {
      world.all_reduce(in, out, ReduceOp::sum);  // whoever is slow is told in this one
      world.all_reduce(std::span{std::as_const(in)}.first(count), std::span{out}.first(count),
                       ReduceOp::sum);
    };
    EXPECT_THROW(disagree(), Mismatch);
  });
}

TEST_P(AcrossHosts, ARankThatLeavesIsNamed) {
  on_threads(GetParam().ranks, settings(), [](Communicator& world) {
    if (world.rank() == 0) return void(Communicator{std::move(world)});
    std::vector<float> in(3000, 1), out(3000);
    try {
      world.all_reduce(in, out, ReduceOp::sum);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const PeerLost& error) {
      EXPECT_EQ(error.lost(), Rank{0}) << error.what();
    }
  });
}

}  // namespace
}  // namespace capstan
