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
    EXPECT_EQ(result.status, 1) << map;
    EXPECT_THAT(result.output, HasSubstr("--hosts")) << map;
  }
  EXPECT_NE(run_command({CAPSTAN_PROGRAM, "verify", "--hosts", "2x2", "--ranks", "4"}).status, 0);
}

}  // namespace
}  // namespace capstan
