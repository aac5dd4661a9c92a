// SPDX-License-Identifier: Apache-2.0

// `capstan verify` as a program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/processes/processes.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

/// The column "between" of the table, by algorithm; "proven" or not is not looked at.
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

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// "barrier flat 2" for each line of the table.
std::vector<std::string> cells_of(const std::string& table) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(table)) {
    if (!line.starts_with(' ')) continue;  // the head and the total
    std::istringstream words{line};
    std::string collective, algorithm, ranks;
    words >> collective >> algorithm >> ranks;
    found.push_back(collective + " " + algorithm + " " + ranks);
  }
  return found;
}

TEST(Verify, BeginsWithTheTimeAndEndsWithATotal) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "verify", "all_gather", "--ranks", "2-4", "--count", "3"});
  EXPECT_EQ(result.status, 0) << result.output;
  const auto lines = lines_of(result.output);
  EXPECT_THAT(lines.front(), MatchesRegex("# [0-9]+ algorithms on 3 worlds: .*[0-9]+ (s|min) on "
                                          "[0-9]+ cores?"));
  EXPECT_THAT(lines.back(),
              MatchesRegex("[0-9]+ proofs of [0-9]+ algorithms on 3 worlds in .*[0-9]+ (s|min): "
                           "all proven .GPU programs are not proven yet."));
  int proofs = 0;
  for (const std::string& line : lines) {
    if (!line.starts_with(' ')) continue;
    std::istringstream words{line};
    std::string word;
    int of_line = 0;
    words >> word >> word >> word >> of_line;
    proofs += of_line;
  }
  EXPECT_THAT(lines.back(), StartsWith(std::to_string(proofs) + " proofs of "));
}

TEST(Verify, CountsOneAlgorithmOnOneWorld) {
  const auto result = run_command({CAPSTAN_PROGRAM, "verify", "all_gather", "--algorithm", "ring",
                                   "--hosts", "0,1", "--count", "3"});
  EXPECT_THAT(lines_of(result.output).back(), HasSubstr("of 1 algorithm on 1 world in "));
}

/// The order is that of collectives, algorithms and worlds, whichever proof ends first.
TEST(Verify, LinesComeInTheOrderOfTheTable) {
  const auto ordered = [](const char* ranks) {
    const auto result = run_command({CAPSTAN_PROGRAM, "verify", "scan", "--ranks", ranks});
    EXPECT_EQ(result.status, 0) << result.output;
    return cells_of(result.output);
  };
  std::vector<std::string> expected;
  for (const std::string& cell : ordered("1"))
    for (const char* ranks : {"7", "2", "6", "1"})
      expected.push_back(cell.substr(0, cell.rfind(' ') + 1) + ranks);
  EXPECT_GE(expected.size(), 8U);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(ordered("7,2,6,1"), expected);
}

TEST(Verify, AllProvesMoreThanTheDefault) {
  const auto usual = run_command({CAPSTAN_PROGRAM, "verify", "barrier"});
  const auto all = run_command({CAPSTAN_PROGRAM, "verify", "barrier", "--all"});
  EXPECT_EQ(usual.status, 0) << usual.output;
  EXPECT_EQ(all.status, 0) << all.output;
  const auto few = cells_of(usual.output), many = cells_of(all.output);
  for (const std::string& cell : few) EXPECT_THAT(many, ::testing::Contains(cell));
  EXPECT_GT(many.size(), few.size());
  for (const char* worlds : {"--ranks", "--hosts"}) {
    const auto both = run_command({CAPSTAN_PROGRAM, "verify", "barrier", "--all", worlds, "2x2"});
    EXPECT_EQ(both.status, 2) << both.output;
  }
}

TEST(Verify, ShowsItsProgressOnATerminalOnly) {
  const std::string program = CAPSTAN_PROGRAM, words = " left, now barrier by ";
  for (const char* options : {"verify barrier --ranks 2", "verify barrier --ranks 2 --json"}) {
    const std::string command = program + " " + options;
    const auto shown = run_command({"script", "-qec", command, "/dev/null"});
    EXPECT_EQ(shown.status, 0) << shown.output;
    EXPECT_THAT(shown.output, HasSubstr(words));
    const auto hidden = run_command({"sh", "-c", command});
    EXPECT_EQ(hidden.status, 0) << hidden.output;
    EXPECT_THAT(hidden.output, Not(HasSubstr(words)));
    EXPECT_THAT(hidden.output, Not(HasSubstr("\r")));
  }
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

/// A run that proves nothing is no success.
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
  EXPECT_EQ(occurrences(result.output, "  REFUSED\n"), 2) << result.output;
  EXPECT_THAT(lines_of(result.output).back(),
              MatchesRegex(".* of 1 algorithm on 2 worlds in .*: 2 REFUSED .*"));
  const auto json = run_command({BROKEN_CAPSTAN, "verify", "scan", "--ranks", "2", "--json"});
  EXPECT_EQ(json.status, 1) << json.output;
  EXPECT_THAT(json.output, HasSubstr("\"ok\": false"));
  const auto right = run_command({BROKEN_CAPSTAN, "verify", "exscan", "--ranks", "2"});
  EXPECT_EQ(right.status, 0) << right.output;
  EXPECT_THAT(right.output, HasSubstr("proven"));
}

}  // namespace
}  // namespace capstan
