// SPDX-License-Identifier: Apache-2.0

// Measurement and judgement: sweeps, how the model is judged, and profiles that several write.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "capstan/error.hpp"
#include "core/profiles/cell_sweep.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/profiles/judge_profile.hpp"
#include "core/profiles/write_profile.hpp"
#include "core/schedule/selection/selector.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/measured_cells.hpp"

namespace capstan {
namespace {

/// A group in which every candidate took its predicted time, times what `factor` says of it.
template <class Factor>
MeasuredGroup measured_as_predicted(Factor factor) {
  MeasuredGroup group;
  group.ranks = 4;
  for (const std::uint64_t bytes : {1024, 65536}) {
    MeasuredCell measured = cell(bytes, {});
    for (const Candidate& each : candidates_for(typical(all_reduce(bytes)), 4, true, {}))
      measured.ways.push_back(
          {each.algorithm, each.protocol, 1, each.nanoseconds * factor(each), 0.02});
    std::ranges::sort(measured.ways, {}, &MeasuredWay::nanoseconds);
    group.cells.push_back(measured);
  }
  return group;
}

TEST(Judge, PredictionsThatAreTrueHaveNoFault) {
  const Judgement judged = judge(measured_as_predicted([](auto&) { return 1.0; }), 4, {});
  ASSERT_EQ(judged.cells.size(), 2u);
  EXPECT_GT(judged.errors.size(), 10u);
  EXPECT_NEAR(judged.median_error(), 0, 1e-9);
  EXPECT_GT(judged.pairs, 10u);
  EXPECT_EQ(judged.pairs_in_order, judged.pairs);
  EXPECT_LT(judged.cells[0].ratio(), 1.5) << "unless it is chosen for its bits";
}

TEST(Judge, AChoiceIsAsBadAsItsTimeBeyondTheSpread) {
  const Choice chosen = choose(typical(all_reduce(1024)), 4, {});
  const auto slow = [&](double times) {
    return judge(measured_as_predicted([&](const Candidate& each) {
                   return each.algorithm == chosen.algorithm && each.protocol == chosen.protocol
                              ? times
                              : 1.0;
                 }),
                 4, {});
  };
  const Judgement bad = slow(10), as_predicted = slow(1);
  EXPECT_GT(bad.cells[0].ratio(), 2);
  EXPECT_LT(bad.cells[0].least_ratio(), bad.cells[0].ratio());
  EXPECT_LT(bad.pairs_in_order, bad.pairs);
  const auto worse = worse_than(1.5, {bad});
  ASSERT_FALSE(worse.empty());
  EXPECT_EQ(worse[0].bytes, Bytes{1024});
  EXPECT_TRUE(worse_than(1.5, {bad, as_predicted}).empty()) << "worse in one of two";
}

TEST(Judge, AChoiceThatWasNotMeasuredIsNotCounted) {
  MeasuredGroup group = measured_as_predicted([](auto&) { return 1.0; });
  const Choice chosen = choose(typical(all_reduce(1024)), 4, {});
  std::erase_if(group.cells[0].ways, [&](const MeasuredWay& each) {
    return each.algorithm == chosen.algorithm && each.protocol == chosen.protocol;
  });
  const Judgement judged = judge(group, 4, {});
  ASSERT_EQ(judged.not_measured.size(), 1u);
  EXPECT_EQ(judged.not_measured[0].chosen.algorithm, chosen.algorithm);
  EXPECT_EQ(judged.cells.size(), 1u);
}

TEST(Profile, SeveralMayAddToOneFileAtATime) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "below/p.json", link = folder / "link.json";
  std::filesystem::create_symlink(file, link);
  const Fingerprint machine = small_profile().machine;
  constexpr int threads = 4, each = 10;
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back([&, thread] {
      for (int i = 0; i < each; ++i) {
        const auto bytes = static_cast<std::uint64_t>(8 * (thread * each + i + 1));
        EXPECT_EQ(add_to_profile(i % 2 == 0 ? file : link, machine, 4,
                                 {cell(bytes, {way("flat", Protocol::staged, 1)})}),
                  1U);
      }
    });
  for (std::thread& thread : all) thread.join();
  const auto known = [&] { return parse_profile(read_profile_file(file), file); };
  EXPECT_EQ(known().groups.at(0).cells.size(), std::size_t{threads * each});
  EXPECT_TRUE(std::filesystem::is_symlink(link)) << "the link is not replaced";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder / "below"}, {}), 1)
      << "nothing is left beside the file";

  const MeasuredCell tuned =
      cell(8, {way("flat", Protocol::staged, 2), way("direct", Protocol::staged, 3)});
  EXPECT_EQ(add_to_profile(file, machine, 4, {tuned}), 1U);
  EXPECT_EQ(add_to_profile(file, machine, 4, {cell(8, {way("flat", Protocol::staged, 1)})}), 0U)
      << "what has more ways stays";
}

TEST(Profile, AnEmptyFileIsANewProfileAndABadOneStays) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "p.json";
  const Fingerprint machine = small_profile().machine;
  const std::vector<MeasuredCell> cells{cell(8, {way("flat", Protocol::staged, 1)})};
  std::ofstream{file};
  EXPECT_EQ(add_to_profile(file, machine, 4, cells), 1U);
  std::ofstream{file} << "my thesis";
  EXPECT_THROW(add_to_profile(file, machine, 4, cells), InvalidArgument);
  EXPECT_EQ(read_profile_file(file), "my thesis");
  EXPECT_THROW(add_to_profile("/proc/nonexistent/p.json", machine, 4, cells), SystemError);
  EXPECT_THROW(add_to_profile(std::string(5000, 'x'), machine, 4, cells), Error);
}

TEST(Judge, AProfileIsJudgedByItsOwnChoice) {
  const MeasuredGroup group = measured_as_predicted(
      [](const Candidate& each) { return each.algorithm->name == "direct" ? 0.001 : 1.0; });
  MeasuredTimes profile{"the profile test"};
  for (const MeasuredCell& each : group.cells) profile.add(each);
  for (const JudgedCell& each : judge(group, 4, {}, &profile).cells) EXPECT_EQ(each.ratio(), 1);
  EXPECT_GT(judge(group, 4, {}).cells[0].ratio(), 10);
}

/// Feeds a sweep with times until it has finished. Returns its result.
template <class TimeOf>
MeasuredCell swept(CellSweep sweep, TimeOf time_of) {
  for (int round = 0; !sweep.finished(); ++round) {
    std::vector<double> times;
    for (const MeasuredWay& each : sweep.round()) times.push_back(time_of(each, round));
    sweep.note(times);
  }
  return sweep.result();
}

TEST(CellSweep, FindsTheFastestAndDropsTheHopeless) {
  const MeasuredCell asked =
      cell(1024, {way("flat", Protocol::staged, 0), way("direct", Protocol::staged, 0),
                  way("ring", Protocol::staged, 0)});
  int rings = 0;
  const MeasuredCell found = swept(CellSweep{asked, {}}, [&](const MeasuredWay& each, int round) {
    if (each.algorithm->name == "ring") return ++rings, 50'000.0;
    if (each.algorithm->name == "direct") return round == 0 ? 900'000.0 : 1'000.0;  // disturbed
    return 1'200.0;
  });
  EXPECT_EQ(rings, 2);
  ASSERT_EQ(found.ways.size(), 3u);
  EXPECT_EQ(found.ways[0].algorithm->name, "direct");
  EXPECT_EQ(found.ways[0].nanoseconds, 1'000);
  EXPECT_EQ(found.ways[2].nanoseconds, 50'000);
  EXPECT_NEAR(found.confidence, 8. / 9, 1e-9);
}

TEST(CellSweep, HalvesBlocksForAsLongAsThatHelps) {
  const MeasuredCell asked = cell(1 << 24, {way("ring", Protocol::staged, 0)});
  const auto time_of = [](const MeasuredWay& each, int) {
    return each.times_shorter == 1 ? 900. : each.times_shorter == 2 ? 700. : 800.;
  };
  const MeasuredCell found = swept(CellSweep{asked, {.most_shorter = 8}}, time_of);
  EXPECT_EQ(found.ways.front().times_shorter, 2u);
  EXPECT_EQ(found.ways.size(), 3u) << "not in blocks of an eighth: those of a quarter are slower";
}

}  // namespace
}  // namespace capstan
