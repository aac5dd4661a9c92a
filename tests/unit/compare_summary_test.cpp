// SPDX-License-Identifier: Apache-2.0

// The summary of a comparison: ratios, lost cells, cliffs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/compare/summary.hpp"
#include "perf/measure/alone.hpp"

namespace capstan::perf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CellResult cell_of(Collective collective, std::uint64_t bytes, double median, double ratio = 2) {
  CellResult cell{
      .subject = {collective}, .ranks = 4, .size = Bytes{bytes}, .own = {.median = median}};
  cell.peers.push_back({"mpi", "mpi-a", {.median = median * ratio}, ratio});
  return cell;
}

TEST(Summaries, CountRatiosByRound) {
  std::vector<CellResult> cells{cell_of(Collective::broadcast, 8, 1, 4),
                                cell_of(Collective::broadcast, 64, 1, 0.25)};
  // This peer is faster in the median, but slower in every round.
  cells[0].peers.push_back({"other", "other", {.median = 0.5}, 9});
  cells.push_back(cell_of(Collective::broadcast, 1024, 0));  // failed
  EXPECT_EQ(cells[0].best()->name, "mpi");
  EXPECT_FALSE(cells[2].ratio());
  const Summary summary = summarize(cells, {});
  EXPECT_DOUBLE_EQ(summary.geometric_mean, 1);
  EXPECT_THAT(summary.lost, ElementsAre(&cells[1]));
  EXPECT_EQ(summary.worst, &cells[1]);
  EXPECT_THAT(cell_line(cells_table({"mpi"}, 200), cells[2], {"mpi"}), HasSubstr("0.00"));
}

/// A cell is won only if it is won in a row and alone.
TEST(Summaries, CountCallsInARowAndAlone) {
  std::vector<CellResult> cells{cell_of(Collective::broadcast, 8, 1, 4),
                                cell_of(Collective::broadcast, 64, 1, 4)};
  EXPECT_FALSE(cells[0].ratio_alone()) << "not measured";
  for (CellResult& cell : cells) cell.alone = {.median = 2};
  cells[0].peers_alone.push_back({"mpi", "mpi-b", {.median = 1}, 0.5});
  cells[1].peers_alone.push_back({"mpi", "mpi-a", {.median = 4}, 2});
  const Summary summary = summarize(cells, {});
  EXPECT_DOUBLE_EQ(summary.geometric_mean, 4);
  EXPECT_DOUBLE_EQ(summary.geometric_mean_alone, 1);
  EXPECT_THAT(summary.lost, ElementsAre(&cells[0]));
  EXPECT_THAT(text_of(summary), AllOf(HasSubstr("# the same for calls that are alone: 1.00 times"),
                                      HasSubstr("4.00 (mpi-a), alone 0.50 (mpi-b)")));
  EXPECT_EQ(to_json(cells, summary)["cells"][0]["alone"]["ratio"], 0.5);
}

/// Cells of near cores and of far ones have means of their own; those during which cores moved
/// none.
TEST(Summaries, DivideCellsByTheDistanceOfCores) {
  std::vector<CellResult> cells{
      cell_of(Collective::broadcast, 8, 1, 4), cell_of(Collective::broadcast, 64, 1, 4),
      cell_of(Collective::broadcast, 512, 1, 0.25), cell_of(Collective::broadcast, 4096, 1, 9)};
  cells[0].distance = {30, 32}, cells[1].distance = {35, 33};
  cells[2].distance = {130, 128}, cells[3].distance = {30, 130};
  const Summary summary = summarize(cells, {});
  ASSERT_EQ(summary.distances.size(), 2U);
  EXPECT_DOUBLE_EQ(summary.distances[0].geometric_mean, 4);
  EXPECT_EQ(summary.distances[0].cells, 2U);
  EXPECT_DOUBLE_EQ(summary.distances[1].geometric_mean, 0.25);
  EXPECT_EQ(summary.distances[1].lost, 1U);
  EXPECT_EQ(summary.moved, 1U);
  EXPECT_THAT(
      text_of(summary),
      AllOf(HasSubstr("# cores 31 to 34 ns from each other: 4.00 times, alone 0.00; 0 of 2"),
            HasSubstr("# cells during which cores moved: 1 of 4")));
  EXPECT_THAT(cell_line(cells_table({"mpi"}, 200), cells[3], {"mpi"}),
              HasSubstr("a flag took 30 ns before, 130 after"));
}

TEST(AloneCalls, BeginAtTimesThatAllRanksKnow) {
  using Clock = AloneCalls::Clock;
  const auto begin = Clock::now() + std::chrono::milliseconds{1};
  const auto period = AloneCalls::period(1e-5);
  EXPECT_GE(period, AloneCalls::quiet + std::chrono::microseconds{10});
  int calls = 0;
  const double seconds = AloneCalls{begin, 1e-5}.time(20, [&] {
    EXPECT_GE(Clock::now(), begin + calls * period);
    ++calls;
  });
  EXPECT_EQ(calls, 20);
  EXPECT_GT(seconds, 0);
  EXPECT_EQ(AloneCalls::calls_in(1e-9, 1), 1U) << "one at least";
}

/// Calls take 2 ms: on each rank at least 1 ms of it lies behind the begin of the last one.
TEST(AloneCalls, CountFromTheLastRankWhereRanksComeAtDifferentTimes) {
  using Clock = AloneCalls::Clock;
  constexpr std::chrono::milliseconds skew{1};
  for (const int rank : {0, 1}) {
    const auto begin = Clock::now();
    const AloneCalls alone{begin, 1e-6, {skew, rank, 2}};
    int calls = 0;
    const double seconds = alone.time(10, [&] {
      EXPECT_GE(Clock::now(), begin + calls++ * (AloneCalls::period(1e-6) + skew));
      for (const auto end = Clock::now() + 2 * skew; Clock::now() < end;) {
      }
    });
    EXPECT_GE(seconds, 1e-3);
  }
}

TEST(AloneCalls, AllRanksKnowTheDelaysOfAll) {
  const AloneCalls::Arrival first{std::chrono::microseconds{50}, 0, 3}, last{first.skew, 2, 3};
  std::mt19937_64 random{7}, same{7};
  const auto delays = AloneCalls::next_delays(random, first);
  EXPECT_EQ(delays, AloneCalls::next_delays(same, last));
  EXPECT_NE(delays, AloneCalls::next_delays(random, first)) << "of the next call";
  for (const auto& delay : delays) EXPECT_TRUE(delay.count() >= 0 && delay <= first.skew);
  EXPECT_LT(AloneCalls::calls_in(1, 1e-6, first.skew), AloneCalls::calls_in(1, 1e-6));
}

TEST(Summaries, CompareAllReducesWithTheirPartsAndWhatLargerCellsWereFasterThan) {
  const std::vector<CellResult> cells{cell_of(Collective::all_reduce, 8, 5),
                                      cell_of(Collective::all_reduce, 64, 3),
                                      cell_of(Collective::broadcast, 8, 1)};
  const auto compare = [&](std::optional<double> by_size, std::optional<double> by_parts) {
    return check_cliffs(cells, [&, by_size, by_parts](const CliffCheck& check) {
      EXPECT_EQ(check.cell->subject, Subject{Collective::all_reduce});
      EXPECT_TRUE(!check.larger || (check.cell == &cells[0] && check.larger == &cells[1]));
      return check.larger ? by_size : by_parts;
    });
  };
  const Summary steep = summarize(cells, compare(1.5, 0.5));
  EXPECT_EQ(steep.checks.size(), 5U) << "one by size, two by two parts";
  EXPECT_THAT(text_of(steep), AllOf(HasSubstr("takes 0.50 to 0.50 times as long as reduce and "
                                              "broadcast in its place"),
                                    HasSubstr("# cliffs: 1\n"),
                                    HasSubstr("all_reduce of 8 on 4 ranks takes 1.50 times as long "
                                              "as all_reduce of 64 on 4 ranks")));
  const Summary slow = summarize(cells, compare(1.05, 1.2));
  EXPECT_THAT(text_of(slow), AllOf(HasSubstr("# cliffs: 4\n"),
                                   HasSubstr("all_reduce of 64 on 4 ranks takes 1.20 times as long "
                                             "as reduce_scatter and all_gather")));
  EXPECT_TRUE(to_json(cells, slow)["cliff_checks"][1]["cliff"]);
  EXPECT_TRUE(compare(std::nullopt, std::nullopt).empty()) << "not measured";
}

TEST(Summaries, SayNothingOfCellsThatFailed) {
  const std::vector<CellResult> cells{cell_of(Collective::all_gather, 8, 5),
                                      cell_of(Collective::all_gather, 64, 0),
                                      cell_of(Collective::all_reduce, 8, 0)};
  EXPECT_TRUE(check_cliffs(cells, [](const CliffCheck&) { return 9.0; }).empty());
}

}  // namespace
}  // namespace capstan::perf
