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
#include "core/profiles/check_profile.hpp"
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
    for (const Candidate& each : candidates_for(typical(all_reduce(bytes)), 4, SumOrder::any, {}))
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

/// A group in which some other way than the model's choice seems ten times as fast.
MeasuredGroup misleading_group() {
  MeasuredGroup group = measured_as_predicted(
      [](const Candidate& each) { return each.algorithm->name == "direct" ? 0.001 : 1.0; });
  return group;
}

MeasuredTimes times_of(const MeasuredGroup& group) {
  MeasuredTimes times{"the profile test"};
  for (const MeasuredCell& each : group.cells) times.add(each);
  return times;
}

/// Lets `change` spoil the cells of a profile that changes choices.
template <class Change>
void expect_that_nothing_is_decided(Change change, const char* why) {
  MeasuredGroup group = misleading_group();
  const MeasuredTimes before = times_of(group);
  for (MeasuredCell& each : group.cells) change(each);
  const MeasuredTimes times = times_of(group);
  for (std::uint64_t bytes = 256; bytes <= 256 << 10; bytes *= 2) {
    const Decision usual = decide(all_reduce(bytes), 4, {}, SumOrder::any, {}, nullptr);
    EXPECT_EQ(decide(all_reduce(bytes), 4, {}, SumOrder::any, {}, &before).source, Source::profile);
    const Decision found = decide(all_reduce(bytes), 4, {}, SumOrder::any, {}, &times);
    EXPECT_EQ(found.source, Source::model) << bytes;
    EXPECT_EQ(found.choice.algorithm, usual.choice.algorithm) << bytes;
    EXPECT_EQ(found.choice.protocol, usual.choice.protocol) << bytes;
    EXPECT_THAT(found.choice.reason, ::testing::HasSubstr(why));
  }
}

TEST(Profile, ACellOfABusyMachineChangesNoChoice) {
  expect_that_nothing_is_decided([](MeasuredCell& each) { each.disturbed = true; },
                                 "the profile test does not decide: the machine was busy");
}

TEST(Profile, ACellOfLittleConfidenceChangesNoChoice) {
  expect_that_nothing_is_decided([](MeasuredCell& each) { each.confidence = 0.25; },
                                 "does not decide: confidence 25 %, below 50 %");
}

/// Where the model's choice takes as long within the spread, it stays.
TEST(Profile, ADifferenceWithinTheNoiseChangesNoChoice) {
  MeasuredGroup group = measured_as_predicted(
      [](const Candidate& each) { return each.algorithm->name == "ring" ? 0.05 : 1.0; });
  const Choice usual = choose(all_reduce(1024), 4, {});
  const auto chosen = [&](double spread) {
    for (MeasuredCell& each : group.cells)
      for (MeasuredWay& way : each.ways) {
        way.spread = spread;
        const bool is_usual = way.is_same_way({usual.algorithm, usual.protocol});
        way.nanoseconds = is_usual ? 1000 : way.algorithm->name == "direct" ? 950 : 9000;
      }
    for (MeasuredCell& each : group.cells)
      std::ranges::sort(each.ways, {}, &MeasuredWay::nanoseconds);
    const MeasuredTimes times = times_of(group);
    return choose(all_reduce(1024), 4, {}, SumOrder::any, {}, &times);
  };
  ASSERT_EQ(usual.algorithm->name, "flat");
  EXPECT_EQ(chosen(0.01).algorithm->name, "direct");
  EXPECT_EQ(chosen(0.2).algorithm->name, "flat");
  EXPECT_THAT(chosen(0.2).reason, ::testing::HasSubstr("none is clearly faster"));
}

TEST(Profile, AQuietMeasurementReplacesABusyOneAndNotTheOtherWayRound) {
  MeasuredGroup group;
  const MeasuredCell quiet = cell(1024, {way("flat", Protocol::staged, 1)});
  MeasuredCell busy = cell(1024, {way("ring", Protocol::staged, 1)});
  busy.disturbed = true;
  EXPECT_TRUE(group.put(busy));
  EXPECT_TRUE(group.put(quiet));
  EXPECT_FALSE(group.put(busy));
  ASSERT_EQ(group.cells.size(), 1U);
  EXPECT_TRUE(group.cells[0].decides());

  const test::TemporaryFolder folder;
  const std::string file = folder / "p.json";
  const Fingerprint machine = small_profile().machine;
  busy.ways.push_back(way("direct", Protocol::staged, 2));
  EXPECT_EQ(add_to_profile(file, machine, 4, {busy}, "busy: load 9"), 1U);
  const Profile written = parse_profile(read_profile_file(file), file);
  EXPECT_TRUE(written.groups.at(0).cells.at(0).disturbed);
  EXPECT_EQ(written.groups.at(0).machine, "busy: load 9");
  EXPECT_EQ(add_to_profile(file, machine, 4, {quiet}), 1U) << "though it has fewer ways";
  EXPECT_EQ(add_to_profile(file, machine, 4, {busy}), 0U);
}

TEST(Profile, ACheckNamesCellsThatDecideNothing) {
  Profile profile = small_profile();
  const auto findings = [&] { return check_profile(profile, profile.machine); };
  EXPECT_TRUE(findings().empty());
  profile.groups[0].cells[0].confidence = 0.25;
  ASSERT_EQ(findings().size(), 1U);
  EXPECT_THAT(findings()[0],
              ::testing::HasSubstr("1024 bytes: it decides nothing (confidence 25 %"));
  profile.groups[0].cells[0].disturbed = true;
  EXPECT_THAT(findings()[0], ::testing::HasSubstr("the machine was busy"));
}

TEST(Judge, ACellThatDecidesNothingIsNamedAndNotCounted) {
  MeasuredGroup group = measured_as_predicted([](auto&) { return 1.0; });
  group.cells[0].disturbed = true;
  const Judgement judged = judge(group, 4, {});
  EXPECT_EQ(judged.cells.size(), 1U);
  ASSERT_EQ(judged.doubtful.size(), 1U);
  EXPECT_EQ(judged.doubtful[0].bytes, Bytes{1024});
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
