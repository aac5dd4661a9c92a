// SPDX-License-Identifier: Apache-2.0

// `capstan perf`: sizes, tables for people, programs and documents, and messages.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/processes/perf_commands.hpp"
#include "tests/processes/processes.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(Perf, StepsAddBytes) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-g", "2", "-b", "8", "-e", "100", "-i",
                                   "40", "-w", "3", "--seconds", "0.001", "--json"});
  EXPECT_EQ(result.status, 0) << result.output;
  const auto document = nlohmann::json::parse(result.output);
  std::vector<int> sizes;
  for (const auto& each : document["results"]) sizes.push_back(each["bytes"]);
  EXPECT_THAT(sizes, ::testing::ElementsAre(8, 48, 88, 100));
  EXPECT_THAT(refused_by_perf({"--step", "0"}), HasSubstr("--step 0: gives more than"));
  EXPECT_THAT(refused_by_perf({"--step", "8", "-f", "3"}), HasSubstr("--step says it"));
}

/// The lines of a table with one size, without comments.
std::vector<std::string> table_of(std::vector<std::string> options) {
  options.insert(options.begin(), {CAPSTAN_PROGRAM, "perf", "-n", "2", "--sizes", "64", "--seconds",
                                   "0.001", "--both-places"});
  const auto result = run_command(options, {{"COLUMNS", "200"}});
  EXPECT_EQ(result.status, 0) << result.output;
  std::vector<std::string> lines;
  std::istringstream stream{result.output};
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("size") || line.starts_with("|") ||
        line.find_first_of("0123456789") == std::min(line.find_first_not_of(' '), line.size()))
      lines.push_back(line);
  return lines;
}

std::size_t fields(const std::string& line, char separator) {
  std::size_t count = 1;
  bool quoted = false;
  for (const char c : line) quoted ^= c == '"', count += c == separator && !quoted;
  return count;
}

TEST(Perf, WritesTablesForProgramsAndDocuments) {
  const auto text = table_of({});
  ASSERT_EQ(text.size(), 1U);
  const auto csv = table_of({"--format", "csv"});
  ASSERT_EQ(csv.size(), 2U);
  EXPECT_THAT(csv[0], ::testing::StartsWith("size (bytes),count (elements),type,op,"));
  EXPECT_EQ(fields(csv[0], ','), fields(csv[1], ',')) << csv[1];
  EXPECT_THAT(csv[1], ::testing::StartsWith("64,16,f32,sum,"));
  const auto markdown = table_of({"--format", "markdown"});
  ASSERT_EQ(markdown.size(), 3U);
  for (const std::string& line : markdown) EXPECT_EQ(fields(line, '|'), fields(csv[0], ',') + 2);
  EXPECT_THAT(markdown[1], ::testing::StartsWith("| ---: |"));
}

TEST(Perf, MeasuresInBothPlacesSideBySide) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--sizes", "64,1K",
                                   "--seconds", "0.001", "--both-places", "--json"});
  EXPECT_EQ(result.status, 0) << result.output;
  const auto document = nlohmann::json::parse(result.output);
  std::vector<bool> in_place;
  for (const auto& each : document["results"]) in_place.push_back(each["in_place"]);
  EXPECT_THAT(in_place, ::testing::ElementsAre(false, true, false, true));
  EXPECT_EQ(run_command({CAPSTAN_PROGRAM, "perf", "--both-places", "--in-place"}).status, 2);
}

TEST(Perf, MeasuresMessages) {
  for (const char* name : {"messages", "latency"}) {
    const auto document = checked_results(
        run_command({CAPSTAN_PROGRAM, "perf", name, "-n", "3", "--sizes", "0,1,100000", "--json",
                     "--rounds", "2", "--seconds", "0.01"}));
    EXPECT_EQ(document["pairs"], 1);
    ASSERT_EQ(document["results"].size(), 3U);
    for (const auto& each : document["results"]) {
      EXPECT_EQ(each["wrong"], 0);
      EXPECT_GT(each["latency_us"], 0);
      EXPECT_GT(each["messages_per_s"], 0);
    }
    EXPECT_EQ(document["results"][2]["bytes"], 100000);
    EXPECT_GT(document["results"][2]["both_ways_gbps"], 0);
  }
  EXPECT_THAT(refused_by_perf({"messages", "--ops", "max"}), HasSubstr("--ops: not for messages"));
  EXPECT_THAT(refused_by_perf({"all_reduce,messages"}), HasSubstr("measure them apart"));
  EXPECT_THAT(refused_by_perf({"all_reduce,messages", "--against", "gloo"}),
              HasSubstr("none of these libraries has messages here"));
  EXPECT_EQ(run_command({CAPSTAN_PROGRAM, "perf", "messages", "-n", "1"}).status, 2);
}

TEST(Perf, ListsRanks) {
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "perf", "-n", "3", "--sizes", "8", "--seconds", "0.001", "--list-ranks"});
  EXPECT_EQ(result.status, 0) << result.output;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(result.output, ::testing::ContainsRegex(
                                   fmt::format("# rank {}: .*, pid [0-9]+, core [0-9]", rank)));
}

}  // namespace
}  // namespace capstan
