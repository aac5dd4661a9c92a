// What a comparison concludes from its cells.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/cli/against/verdict.hpp"

namespace capstan::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Duel duel_of(Collective collective, std::uint64_t bytes, double median, double ratio = 2) {
  Duel duel{.collective = collective, .ranks = 4, .size = Bytes{bytes}, .own = {.median = median}};
  duel.peers.push_back({"mpi", "mpi-a", {.median = median * ratio}, ratio});
  return duel;
}

TEST(Verdicts, CountRatiosByRound) {
  std::vector<Duel> duels{duel_of(Collective::broadcast, 8, 1, 4),
                          duel_of(Collective::broadcast, 64, 1, 0.25)};
  // Faster in the median, but not in the rounds that Capstan was measured in.
  duels[0].peers.push_back({"other", "other", {.median = 0.5}, 9});
  duels.push_back(duel_of(Collective::broadcast, 1024, 0));  // failed
  EXPECT_EQ(duels[0].best()->name, "mpi");
  EXPECT_FALSE(duels[2].ratio());
  const Verdict verdict = verdict_on(duels, {});
  EXPECT_DOUBLE_EQ(verdict.geometric_mean, 1);
  EXPECT_THAT(verdict.lost, ElementsAre(&duels[1]));
  EXPECT_EQ(verdict.worst, &duels[1]);
  EXPECT_THAT(duel_line(duels[2], {"mpi"}), HasSubstr("0.00"));
}

TEST(Verdicts, AskAgainAboutCliffsThatTheySuspect) {
  const std::vector<Duel> duels{
      duel_of(Collective::all_reduce, 8, 5),     duel_of(Collective::all_reduce, 64, 3),
      duel_of(Collective::reduce, 8, 1),         duel_of(Collective::broadcast, 8, 1),
      duel_of(Collective::reduce_scatter, 8, 4), duel_of(Collective::all_gather, 8, 4)};
  int asked = 0;
  const auto answer = [&](std::optional<double> times) {
    return find_cliffs(duels, [&, times](const Cliff& cliff) {
      EXPECT_EQ(cliff.cell, &duels[0]);
      EXPECT_TRUE(cliff.larger ? cliff.larger == &duels[1] : cliff.parts == 0);
      ++asked;
      return times;
    });
  };
  EXPECT_EQ(answer(1.5).size(), 2U) << "64 bytes, and a reduce and a broadcast";
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(answer(1.05).empty()) << "not confirmed";
  EXPECT_TRUE(answer(std::nullopt).empty()) << "not measured";
  const Verdict verdict = verdict_on(duels, answer(1.5));
  EXPECT_THAT(summary(verdict), HasSubstr("all_reduce of 8 on 4 ranks takes 1.50 times as long as "
                                          "reduce and broadcast of the same"));
  EXPECT_THAT(summary(verdict), HasSubstr("all_reduce of 8 on 4 ranks takes 1.50 times as long as "
                                          "all_reduce of 64 on 4 ranks"));
}

TEST(Verdicts, SayNothingOfCellsThatFailed) {
  const std::vector<Duel> duels{duel_of(Collective::all_gather, 8, 5),
                                duel_of(Collective::all_gather, 64, 0)};
  EXPECT_TRUE(find_cliffs(duels, [](const Cliff&) { return 9.0; }).empty());
}

}  // namespace
}  // namespace capstan::cli
