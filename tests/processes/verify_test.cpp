// `capstan verify` as a program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/processes/processes.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// What the column "between" of the table says, by algorithm; "proven" or not is not looked at.
std::map<std::string, int> sent_between_hosts(const std::string& table) {
  std::map<std::string, int> between;
  std::istringstream lines{table};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream cells{line};
    std::string collective, algorithm, other;
    cells >> collective >> algorithm;
    for (int column = 0; column < 5; ++column) cells >> other;
    cells >> between[algorithm];
  }
  return between;
}

TEST(Verify, ProvesOverAMapOfHosts) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "verify", "reduce_scatter", "--hosts", "2x2", "--count", "60"});
  EXPECT_EQ(result.status, 0) << result.output;
  auto between = sent_between_hosts(result.output);
  EXPECT_EQ(between["two_level"], 120) << "one sum of each of two blocks\n" << result.output;
  EXPECT_EQ(between["direct"], 240) << result.output;
}

TEST(Verify, OnOneHostNothingIsSentToOthers) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "verify", "all_gather", "--ranks", "4", "--count", "3"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(sent_between_hosts(result.output)["ring"], 0) << result.output;
}

TEST(Verify, ShowsWhatARankOfAHostDoes) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "verify", "broadcast", "--algorithm", "leaders", "--hosts",
                   "0,0,1,1", "--count", "7", "--root", "0", "--show", "2"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("on 4 ranks of 2 hosts, 7 elements, root 0: rank 2"));
  EXPECT_THAT(result.output, HasSubstr("-> rank 3 scratch[0,7)"));
}

TEST(Verify, RefusesMapsThatAreNone) {
  for (const char* map : {"2x", "x2", "2x2x2", "0x2", "0,a", "0,,1", "-1,0", "5000x5000"}) {
    const auto result = run_command({CAPSTAN_PROGRAM, "verify", "barrier", "--hosts", map});
    EXPECT_EQ(result.status, 2) << map;
    EXPECT_THAT(result.output, HasSubstr("--hosts")) << map;
  }
  EXPECT_EQ(run_command({CAPSTAN_PROGRAM, "verify", "--hosts", "2x2", "--ranks", "4"}).status, 2);
}

/// What proves nothing is no success.
TEST(Verify, SaysThatNothingIsLeftToProve) {
  const auto refused = [](std::vector<std::string> options) {
    options.insert(options.begin(), {CAPSTAN_PROGRAM, "verify"});
    const auto result = run_command(options);
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(refused({"--root", "9", "--ranks", "3"}),
              HasSubstr("--root 9: there are 3 ranks at most"));
  EXPECT_THAT(refused({"broadcast", "--root", "9", "--ranks", "3"}), HasSubstr("--root 9"));
  EXPECT_THAT(refused({"all_reduce", "--algorithm", "direct", "--ranks", "1024"}),
              HasSubstr("nothing was left to prove"));
  EXPECT_THAT(refused({"--ranks", ""}), HasSubstr("--ranks"));
  EXPECT_THAT(refused({"--ranks", "4-"}), HasSubstr("'' is not a whole number"));
  EXPECT_THAT(refused({"--count", "0-2000000000"}), HasSubstr("--count '0-2000000000'"));
}

TEST(Verify, RefusesOptionsThatDoNothing) {
  const auto refused = [](std::vector<std::string> options) {
    options.insert(options.begin(), {CAPSTAN_PROGRAM, "verify", "all_gather", "--ranks", "2"});
    const auto result = run_command(options);
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(refused({"--root", "1"}), HasSubstr("--root: all_gather has no root"));
  EXPECT_THAT(refused({"--show", "0", "--json"}), HasSubstr("--json: not with --show"));
  EXPECT_THAT(refused({"--show", "0", "--in-place"}), HasSubstr("--in-place: not with --show"));
}

TEST(Verify, NamesTheChoices) {
  const auto none = run_command({CAPSTAN_PROGRAM, "verify", "--algorithm", "quantum"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.output, HasSubstr("choose from binomial"));
  const auto other = run_command({CAPSTAN_PROGRAM, "verify", "scan", "--algorithm", "ring"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.output, HasSubstr("scan has no algorithm 'ring': choose one of "));
}

TEST(Verify, RefusesAWrongAlgorithmAndFails) {
  const auto result = run_command({BROKEN_CAPSTAN, "verify", "scan", "--ranks", "2-3"});
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_EQ(occurrences(result.output, "REFUSED"), 2) << result.output;
  const auto json = run_command({BROKEN_CAPSTAN, "verify", "scan", "--ranks", "2", "--json"});
  EXPECT_EQ(json.status, 1) << json.output;
  EXPECT_THAT(json.output, HasSubstr("\"ok\": false"));
  const auto right = run_command({BROKEN_CAPSTAN, "verify", "exscan", "--ranks", "2"});
  EXPECT_EQ(right.status, 0) << right.output;
  EXPECT_THAT(right.output, HasSubstr("proven"));
}

}  // namespace
}  // namespace capstan
