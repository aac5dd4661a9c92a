// SPDX-License-Identifier: Apache-2.0

// Profilers that are attached to communicators.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "capstan/error.hpp"
#include "capstan/observe/exports.hpp"
#include "capstan/observe/profiler.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Profiles = std::vector<OperationProfile>;

Settings predicted() {
  Settings settings = bounded_settings();
  settings.autotune = false;
  return settings;
}

Request all_reduce_request(std::vector<float>& data) {
  return request::in_place(Collective::all_reduce, data);
}

TEST(AttachedProfiler, RecordsEveryCollectiveWithItsAlgorithm) {
  on_threads(3, predicted(), [](Communicator& world) {
    Profiler profiler;
    world.attach(profiler, "gradients");
    std::vector<float> data(1000, 1.0F), all(3000);
    world.all_reduce(data);
    world.all_reduce(data);
    world.all_gather(data, all);
    world.start_broadcast(data, 1).wait();
    world.barrier();
    const std::string algorithm = world.algorithm(all_reduce_request(data));
    const Profiles profiles = profiler.profiles();
    ASSERT_THAT(profiles, SizeIs(5));
    EXPECT_THAT(profiles, Each(AllOf(Field(&OperationProfile::ranks, 3),
                                     Field(&OperationProfile::rank, world.rank()),
                                     Field(&OperationProfile::tag, "gradients"),
                                     Field(&OperationProfile::failed, false))));
    const char* const names[] = {"all_reduce", "all_reduce", "all_gather", "broadcast", "barrier"};
    const std::uint64_t bytes[] = {4000, 4000, 12000, 4000, 0};
    for (std::size_t i = 0; i < profiles.size(); ++i) {
      EXPECT_EQ(profiles[i].operation, names[i]);
      EXPECT_EQ(profiles[i].bytes, Bytes{bytes[i]}) << i;
      EXPECT_GT(profiles[i].duration.count(), 0) << i;
      EXPECT_NE(profiles[i].algorithm, "") << i;
      const auto before = profiles[i > 0 ? i - 1 : 0].timestamp;
      EXPECT_TRUE(i == 0 || profiles[i].began >= before) << i;
    }
    EXPECT_EQ(profiles[1].algorithm, algorithm);
  });
}

TEST(AttachedProfiler, OfAllRanksMayBeOne) {
  Profiler profiler;
  constexpr int calls = 200;
  on_threads(4, predicted(), [&](Communicator& world) {
    world.attach(profiler);
    std::vector<std::int32_t> data{world.rank()};
    for (int i = 0; i < calls; ++i) world.all_reduce(data);
  });
  EXPECT_EQ(profiler.statistics().operations, 4U * calls);
  std::array<int, 4> by_rank{};
  for (const OperationProfile& profile : profiler.profiles())
    ++by_rank.at(static_cast<std::size_t>(profile.rank));
  EXPECT_THAT(by_rank, Each(calls));
}

TEST(AttachedProfiler, CountsCallsThatTheAutotunerMeasures) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    Profiler profiler;
    world.attach(profiler);
    std::vector<float> data(1 << 16);
    int calls = 0;
    for (; calls < 50 || (!world.is_settled(all_reduce_request(data)) && calls < 2000); ++calls)
      world.all_reduce(data);
    EXPECT_EQ(profiler.statistics().operations, static_cast<std::uint64_t>(calls));
    for (const OperationProfile& profile : profiler.profiles())
      EXPECT_EQ(profile.operation, "all_reduce") << "what ranks agree on is no call of the program";
  });
}

TEST(AttachedProfiler, MayComeAndGoBetweenCalls) {
  on_threads(2, predicted(), [](Communicator& world) {
    Profiler first, second;
    std::vector<float> data(8);
    world.all_reduce(data);
    world.attach(first);
    world.all_reduce(data);
    world.attach(second);
    world.all_reduce(data);
    world.detach_profiler();
    world.all_reduce(data);
    world.attach(Profiler{false});
    world.all_reduce(data);
    EXPECT_THAT(first.profiles(), SizeIs(1));
    EXPECT_THAT(second.profiles(), SizeIs(1));
  });
}

TEST(AttachedProfiler, GroupsHaveProfilersAndTagsOfTheirOwn) {
  on_threads(4, predicted(), [](Communicator& world) {
    Profiler profiler;
    auto pair = world.split(world.rank() % 2);
    ASSERT_TRUE(pair);
    world.attach(profiler, "world");
    pair->attach(profiler, "pair");
    std::vector<float> data(8);
    pair->all_reduce(data);
    world.all_reduce(data);
    const Profiles profiles = profiler.profiles();
    ASSERT_THAT(profiles, SizeIs(2));
    EXPECT_EQ(profiles[0].tag, "pair");
    EXPECT_EQ(profiles[0].ranks, 2);
    EXPECT_EQ(profiles[1].tag, "world");
    EXPECT_THAT(profiles, Each(Field(&OperationProfile::rank, world.rank())));
  });
}

TEST(Requirement, O38_ACollectiveThatFailsIsRecordedAsFailedAndItsErrorPassesOn) {
  on_threads(2, predicted(), [](Communicator& world) {
    Profiler profiler;
    world.attach(profiler);
    std::vector<float> data(8);
    world.all_reduce(data);
    if (world.rank() == 0) {
      EXPECT_THROW(world.all_reduce(data), Aborted);
      const Profiles profiles = profiler.profiles();
      ASSERT_THAT(profiles, SizeIs(2));
      EXPECT_FALSE(profiles[0].failed);
      EXPECT_TRUE(profiles[1].failed);
      EXPECT_EQ(profiler.statistics().operations, 1U);
      EXPECT_EQ(profiler.statistics().failures, 1U);
    } else {
      world.abort("for a test");
    }
  });
}

TEST(AttachedProfiler, LivesOnWhereTheProgramDropsIt) {
  on_threads(2, predicted(), [](Communicator& world) {
    world.attach(Profiler{});
    std::vector<float> data(8);
    world.all_reduce(data);
  });
}

TEST(Requirement, O68_RecordedTimesAddUpToThoseOfTheProgram) {
  on_threads(2, predicted(), [](Communicator& world) {
    Profiler profiler;
    world.attach(profiler);
    std::vector<float> data(1 << 16);
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) world.all_reduce(data);
    const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - began;
    EXPECT_EQ(profiler.statistics().operations, 100U);
    EXPECT_EQ(profiler.statistics().bytes, Bytes{100ULL << 18});
    EXPECT_LE(profiler.statistics().time.count(), wall.count());
    EXPECT_GT(profiler.statistics().time.count(), 0);
  });
}

Profiler with_steps(std::size_t steps) {
  return Profiler{ProfilerOptions{.steps = steps}};
}

/// Ranks that make some calls by one rule, with their steps in one profiler.
Profiler recorded_steps(int ranks, const std::string& rule, std::size_t floats, int calls = 1) {
  Profiler profiler = with_steps(1 << 16);
  Settings settings = predicted();
  settings.algorithm = rule;
  settings.chunk = Bytes{16 << 10};
  on_threads(ranks, settings, [&](Communicator& world) {
    world.attach(profiler);
    std::vector<float> data(floats, 1.0F);
    for (int i = 0; i < calls; ++i) world.all_reduce(data);
    EXPECT_EQ(data.front(), std::pow(ranks, calls));
  });
  return profiler;
}

using Steps = std::vector<StepProfile>;

Steps of_rank(const Profiler& profiler, int rank) {
  Steps steps = profiler.steps();
  std::erase_if(steps, [&](const StepProfile& step) { return step.rank != rank; });
  return steps;
}

TEST(RecordedSteps, LieWithinTheirCallInOrder) {
  const Profiler profiler = recorded_steps(4, "all_reduce:rabenseifner/staged", 1000, 3);
  const Profiles calls = profiler.profiles();
  ASSERT_THAT(calls, SizeIs(12));
  for (int rank = 0; rank < 4; ++rank) {
    const Steps steps = of_rank(profiler, rank);
    ASSERT_THAT(steps, testing::Not(IsEmpty()));
    EXPECT_EQ(steps.size() % 3, 0u) << "the same in each call";
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto call = std::ranges::find(calls, steps[i].operation, &OperationProfile::index);
      ASSERT_NE(call, calls.end());
      EXPECT_EQ(call->rank, rank);
      EXPECT_GE(steps[i].began, call->began);
      EXPECT_LE(steps[i].began + steps[i].duration, call->timestamp);
      if (i > 0) {
        EXPECT_GE(steps[i].began, steps[i - 1].began + steps[i - 1].duration);
      }
      EXPECT_NE(steps[i].peer, rank);
    }
  }
}

/// The n-th wait for a peer ends after the peer has begun its n-th signal.
TEST(RecordedSteps, AreOnOneClock) {
  const Profiler profiler = recorded_steps(2, "all_reduce:direct/staged", 5000, 20);
  for (int rank = 0; rank < 2; ++rank) {
    Steps waits = of_rank(profiler, rank), signals = of_rank(profiler, 1 - rank);
    std::erase_if(waits, [](const StepProfile& step) { return step.step != "wait"; });
    std::erase_if(signals, [](const StepProfile& step) { return step.step != "signal"; });
    ASSERT_EQ(waits.size(), signals.size());
    ASSERT_GE(waits.size(), 20u);
    for (std::size_t i = 0; i < waits.size(); ++i) {
      EXPECT_EQ(waits[i].peer, 1 - rank);
      EXPECT_GE(waits[i].began + waits[i].duration, signals[i].began);
    }
  }
}

TEST(RecordedSteps, OfPacketsAndOfStreamsOfBlocks) {
  const auto kinds = [](const Profiler& profiler) {
    std::set<std::string> found;
    for (const StepProfile& step : profiler.steps()) found.insert(step.step);
    return found;
  };
  EXPECT_THAT(kinds(recorded_steps(3, "all_reduce:flat/inline_packets", 2)),
              testing::IsSubsetOf({"copy", "reduce", "notify", "slot"}));
  const Profiler stream = recorded_steps(3, "all_reduce:ring/staged", 200'000);
  EXPECT_THAT(kinds(stream), testing::IsSupersetOf({"copy", "reduce", "signal", "wait"}));
  std::set<std::uint64_t> blocks;
  for (const StepProfile& step : of_rank(stream, 1)) blocks.insert(step.block);
  EXPECT_GT(blocks.size(), 5u);
}

TEST(RecordedSteps, TheLastAreKept) {
  Profiler profiler = with_steps(10);
  on_threads(2, predicted(), [&](Communicator& world) {
    if (world.rank() == 0) world.attach(profiler);
    std::vector<float> data(1000, 1.0F);
    for (int i = 0; i < 50; ++i) world.all_reduce(data);
  });
  const Steps steps = profiler.steps();
  ASSERT_THAT(steps, SizeIs(10));
  EXPECT_EQ(steps.back().operation, 49u);
  profiler.clear();
  EXPECT_THAT(profiler.steps(), IsEmpty());
  EXPECT_THAT(Profiler{}.steps(), IsEmpty()) << "none, unless they are asked for";
  EXPECT_THAT(Profiler{false}.steps(), IsEmpty());
  EXPECT_THROW(with_steps((std::size_t{1} << 24) + 1), InvalidArgument);
}

TEST(RecordedSteps, AreExportedWithinTheirCall) {
  const Profiler profiler = recorded_steps(2, "all_reduce:direct/staged", 1000);
  const auto steps = profiler.steps();
  const auto trace = nlohmann::json::parse(to_trace(profiler.profiles(), steps));
  std::size_t found = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] != "step") continue;
    ++found;
    EXPECT_GE(event["ts"].get<double>(), 0);
    EXPECT_TRUE(event["args"].contains("block"));
  }
  EXPECT_EQ(found, steps.size());
  const std::string picture = to_picture(steps, "a < b");
  EXPECT_THAT(picture, testing::HasSubstr("a &lt; b"));
  EXPECT_THAT(picture, testing::HasSubstr(">rank 1</text>"));
  std::size_t drawn = 0;
  for (auto at = picture.find("class=\"step\""); at != std::string::npos;
       at = picture.find("class=\"step\"", at + 1))
    ++drawn;
  EXPECT_EQ(drawn, steps.size());
  EXPECT_THAT(to_picture({}, "nothing"), testing::HasSubstr("</svg>"));
  const std::string axis =
      to_picture(Steps{{.step = "copy", .duration = std::chrono::microseconds{80}, .rank = 0}}, "");
  for (const char* mark : {">0.0 us<", ">16.0 us<", ">48.0 us<", ">80.0 us<"})
    EXPECT_THAT(axis, testing::HasSubstr(mark));
}

}  // namespace
}  // namespace capstan
