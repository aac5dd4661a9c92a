// Profilers that are attached to communicators.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

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

}  // namespace
}  // namespace capstan
