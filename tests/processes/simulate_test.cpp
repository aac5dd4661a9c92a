// SPDX-License-Identifier: Apache-2.0

// `capstan simulate` as a program, and the sessions of its document.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/processes/folder.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Simulate, TheDocumentsSessionsAreTrue) {
  expect_true_sessions("simulation.md", 5);
}

TEST(Simulate, WritesJsonAndAPicture) {
  const Folder folder;
  const auto result = folder.run(
      "capstan simulate broadcast -n 60 -b 64k --fabric dragonfly:routers=4,hosts=4 --svg b.svg "
      "--json");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("\"network\": \"dragonfly of 60 ports: 4 groups of 4 routers"));
  EXPECT_THAT(result.output, HasSubstr("\"critical_path\": {"));
  const std::string svg = folder.run("cat b.svg").output;
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr("class=\"critical\""));
}

/// The ring of 256 ranks has 200,000 steps and 510 messages on its critical path.
TEST(Simulate, APageOfManyRanksIsShortAndShowsTheWholeCriticalPath) {
  const Folder folder;
  folder.run("capstan simulate all_reduce -n 256 -b 1M -a ring --every-rank --chart page.html");
  const std::string page = folder.run("cat page.html").output;
  EXPECT_GT(page.size(), 100'000U);
  EXPECT_LT(page.size(), 1'000'000U);
  const auto begin = page.find("class=\\\"critical\\\" d=\\\"");
  ASSERT_NE(begin, page.npos);
  const std::string path = page.substr(begin, page.find('>', begin) - begin);
  EXPECT_EQ(std::ranges::count(path, 'M'), 510);
  EXPECT_EQ(std::ranges::count(path, 'L'), 510);
}

/// The numbers that a pattern's groups match.
std::vector<std::pair<double, double>> numbers_in(const std::string& text, const char* pattern) {
  std::vector<std::pair<double, double>> numbers;
  const std::regex regex{pattern};
  for (std::sregex_iterator at{text.begin(), text.end(), regex}, end; at != end; ++at)
    numbers.emplace_back(std::stod((*at)[1]), std::stod((*at)[2]));
  return numbers;
}

TEST(Simulate, APictureHasRoomForAllThatItDraws) {
  const Folder folder;
  folder.run("capstan simulate all_reduce -n 8 -b 64k --svg a.svg");
  const std::string svg = folder.run("cat a.svg").output;
  const auto sizes = numbers_in(svg, "viewBox=\"0 0 ([0-9]+) ([0-9]+)\"");
  ASSERT_EQ(sizes.size(), 1U);
  const auto places = numbers_in(svg, " x[12]?=\"([0-9.-]+)\" y[12]?=\"([0-9.-]+)\"");
  EXPECT_GT(places.size(), 30U);
  for (const auto& [x, y] : places) {
    EXPECT_TRUE(x >= 0 && x <= sizes[0].first) << x;
    EXPECT_TRUE(y >= 0 && y <= sizes[0].second) << y;
  }
}

TEST(Simulate, RefusesWhatItCannotRun) {
  const Folder folder;
  const auto message = [&](const std::string& options) {
    const auto result = folder.run("capstan simulate all_reduce " + options + " 2>&1");
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(message("--fabric torus:dims=3x3"), HasSubstr("has 9 ports, and 64 are needed"));
  EXPECT_THAT(message("--fabric dragonfly:routers=1048576"),
              HasSubstr("links between switches, and 1e+08 can be simulated"));
  EXPECT_THAT(message("--fabric fat-tree:oversubscription=1e-9"), HasSubstr("oversubscription"));
  EXPECT_THAT(message("--fabric torus:dims=1048576x1048576x1048576x1048576"),
              HasSubstr("and 64 are needed"));
  EXPECT_THAT(message("-a direct -n 500"), HasSubstr("made for up to 256 ranks"));
  EXPECT_THAT(message("-a circle"), HasSubstr("circle"));
  EXPECT_THAT(message("--straggler 64:2"), HasSubstr("a rank below 64"));
  EXPECT_THAT(message("--costs sned=1"), HasSubstr("column 1: expected NAME=NUMBER"));
  EXPECT_THAT(message("--costs send=1,call=2,send=3"),
              HasSubstr("column 15: 'send' stands here a second time"));
  EXPECT_THAT(message("--straggler 3:2 --straggler 3:4"), HasSubstr("rank 3 has a factor already"));
}

/// All that is computed from what is accepted is finite, also in floats.
TEST(Simulate, RefusesNumbersWhoseTimesAreNotFinite) {
  const Folder folder;
  const auto message = [&](const std::string& options) {
    const auto result = folder.run("capstan simulate all_reduce -n 8 " + options + " 2>&1");
    EXPECT_EQ(result.status, 2) << result.output;
    return result.output;
  };
  for (const char* bandwidth : {"1e-310", "5e-324", "1e11", "nan", "inf"})
    EXPECT_THAT(message(fmt::format("--fabric flat:bandwidth={}", bandwidth)),
                HasSubstr("is not a number from 1e-09 to 1e+09"));
  EXPECT_THAT(message("--costs send=1e11"), HasSubstr("'1e11' is not a number from 0 to 1e+09"));
  EXPECT_THAT(message("--straggler 7:1e7"), HasSubstr("'1e7' is not a number from 0 to 1e+06"));
  const auto most = folder.run(
      "capstan simulate all_reduce -n 8 -b 1024G -a ring --protocol staged --block 128G --json "
      "--fabric flat:bandwidth=1e-9 --straggler 7:1e6 "
      "--costs reduce-byte=1e9,copy-byte=1e9,cpu-byte=1e9");
  ASSERT_EQ(most.status, 0) << most.output;
  const auto json = nlohmann::json::parse(most.output);
  for (const char* part : {"overhead", "work", "transfer", "latency", "queueing"})
    EXPECT_TRUE(json["critical_path"][part].is_number()) << part;
}

TEST(Simulate, SaysWhatToDoWhereAllCandidatesHaveTooManySteps) {
  const Folder folder;
  for (const char* command : {"simulate", "explain --fabric flat"}) {
    const auto result = folder.run(fmt::format("capstan {} scan -n 8192 -b 1024G 2>&1", command));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_THAT(result.output,
                HasSubstr("every candidate has more than 40000000 steps: name one by "
                          "`capstan simulate --algorithm`, such as "));
  }
}

/// As ranks would run it by CAPSTAN_SCHEDULES and CAPSTAN_ALGORITHM.
TEST(Simulate, KnowsAddedSchedulesAndRules) {
  const Folder folder;
  folder.run("capstan export all_reduce -a ring -n 8 --name mine -o mine.json");
  const auto algorithm = [&](const std::string& variables, const std::string& options) {
    const auto result =
        folder.run(variables + " capstan simulate all_reduce -n 8 -b 64k --json " + options);
    EXPECT_EQ(result.status, 0) << result.output;
    return nlohmann::json::parse(result.output);
  };
  const std::string added = "CAPSTAN_SCHEDULES=mine.json ";
  const auto named = algorithm(added, "-a mine"), built_in = algorithm("", "-a ring --every-rank");
  EXPECT_EQ(named["algorithm"], "mine");
  EXPECT_EQ(named["messages"], built_in["messages"]);
  EXPECT_THAT(algorithm(added, "")["candidates"].dump(), HasSubstr("\"mine\""));
  const auto ruled = algorithm(added + "CAPSTAN_ALGORITHM=all_reduce:0-1m:mine", "");
  EXPECT_EQ(ruled["algorithm"], "mine");
  EXPECT_EQ(ruled["rule"], "all_reduce:0-1m:mine");
  EXPECT_EQ(ruled["candidates"].size(), 2U);
  EXPECT_EQ(algorithm("CAPSTAN_ALGORITHM=all_reduce:flat", "-a ring")["algorithm"], "ring");
  EXPECT_FALSE(algorithm(added + "CAPSTAN_ALGORITHM=all_reduce:1m-inf:mine", "").contains("rule"));
  const auto other = folder.run(added + "capstan simulate all_reduce -n 9 -a mine 2>&1");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.output, HasSubstr("no schedule of it for 9 ranks"));
  const auto unknown = folder.run(added + "capstan simulate all_reduce -n 8 -a mind 2>&1");
  EXPECT_THAT(unknown.output, HasSubstr("the program has added mine"));
  const auto wrong =
      folder.run("CAPSTAN_ALGORITHM=all_reduce:mine capstan simulate all_reduce 2>&1");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.output, HasSubstr("in column 12"));
}

TEST(Simulate, RefusesOperationsThatNoCallHas) {
  const Folder folder;
  for (const char* wrong :
       {"all_reduce --op bit_and --type f32", "reduce --op max --type c64", "scan --op average",
        "exscan --op average --type i32", "reduce_scatter --op bit_xor --type f16"})
    for (const char* command : {"simulate", "explain"}) {
      const auto result = folder.run(fmt::format("capstan {} {} -n 2 -b 64 2>&1", command, wrong));
      EXPECT_EQ(result.status, 2) << command << " " << wrong << ": " << result.output;
      EXPECT_THAT(result.output, HasSubstr("is not defined")) << command << " " << wrong;
    }
}

TEST(Simulate, WritesTheHostsOfAFileAsJson) {
  const Folder folder;
  const auto result = folder.run(
      "echo '{\"format\": \"capstan-topology\", \"version\": 1, \"name\": \"two racks\"}' > file;"
      "capstan simulate barrier -n 4 --topology file --json");
  EXPECT_THAT(result.output, HasSubstr("\"hosts_summary\": \"two racks\""));
  EXPECT_THAT(folder.run("capstan simulate barrier -n 4 --json").output,
              Not(HasSubstr("hosts_summary")));
}

TEST(Simulate, RefusesFilesThatItCannotWriteAndLeavesThoseThatAreThere) {
  const Folder folder;
  const auto refused = [&](const std::string& file) {
    const auto result = folder.run("capstan simulate barrier -n 4 --svg " + file + " 2>&1");
    EXPECT_EQ(result.status, 1) << result.output;
    EXPECT_THAT(result.output, HasSubstr("capstan: cannot write '" + file + "': check the path"));
  };
  folder.run("mkdir folder; ln -s loop loop; echo there > file; ln -s missing link");
  for (const std::string& file : {std::string(300, 'a'), std::string{"loop"}, std::string{"folder"},
                                  std::string{"file/below"}, std::string{"no/folder"}})
    refused(file);
  // A call that is refused later changes nothing.
  for (const char* file : {"file", "link", "new"})
    EXPECT_NE(
        folder.run(fmt::format("capstan simulate barrier -n 4 -a circle --svg {}", file)).status,
        0);
  EXPECT_EQ(folder.run("cat file; readlink link; ls").output,
            "there\nmissing\nfile\nfolder\nlink\nloop\n");
  EXPECT_EQ(folder.run("capstan simulate barrier -n 4 --svg link").status, 0);
  EXPECT_THAT(folder.run("cat missing").output,
              AllOf(StartsWith("<svg"), EndsWith("</svg>\n"), Not(EndsWith("\n\n"))));
}

}  // namespace
}  // namespace capstan
