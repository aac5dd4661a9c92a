// SPDX-License-Identifier: Apache-2.0

// Output of `capstan help`: all that --help says, as manual pages and completions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/processes/folder.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr const char* commands[] = {"run",  "perf",    "verify",    "export",
                                    "tune", "explain", "calibrate", "simulate",
                                    "topo", "doctor",  "settings",  "help"};

/// "--ranks" and the like, but for "--help" in examples of other programs.
std::set<std::string> long_options(const std::string& text) {
  const std::regex option{"^ +(?:-[a-zA-Z],)?(--[a-z][a-z-]*)", std::regex::multiline};
  std::set<std::string> found;
  for (std::sregex_iterator at{text.begin(), text.end(), option}, end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

TEST(Help, SaysOfEachCommandWhatItSaysItself) {
  const Folder folder;
  for (const std::string command : commands) {
    const auto asked = folder.run("capstan help " + command);
    EXPECT_EQ(asked.status, 0) << asked.output;
    const auto own = folder.run("capstan " + command + " --help");
    EXPECT_EQ(long_options(asked.output), long_options(own.output)) << command;
    EXPECT_FALSE(long_options(own.output).empty()) << command;
  }
  EXPECT_THAT(folder.run("capstan help").output, HasSubstr("calibrate"));
  const auto unknown = folder.run("capstan help nothing");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.output, HasSubstr("there is no command 'nothing'; there are run perf"));
}

TEST(Help, ManualPagesHaveAllOptionsAndExamples) {
  const Folder folder;
  for (const std::string command : commands) {
    auto page = folder.run("capstan help --man " + command).output;
    page.erase(std::ranges::remove(page, '\\').begin(), page.end());
    EXPECT_TRUE(page.starts_with(".TH capstan-" + command + " 1")) << page.substr(0, 80);
    for (const std::string& option : long_options(folder.run("capstan help " + command).output))
      EXPECT_THAT(page, HasSubstr(option)) << command;
    EXPECT_THAT(page, HasSubstr(".SH NOTES")) << command;
  }
}

/// Lines of the pages that begin with a point are commands of roff: no text of ours does.
TEST(Help, ManualPagesAreRoff) {
  const Folder folder;
  const std::regex request{"\\.(TH|SH|TP|B|BR|nf|fi)( .*)?"};
  for (const std::string command : commands) {
    std::istringstream page{folder.run("capstan help --man " + command).output};
    for (std::string line; std::getline(page, line);)
      if (line.starts_with(".")) EXPECT_TRUE(std::regex_match(line, request)) << line;
  }
}

TEST(Help, CompletionsKnowCommandsAndOptions) {
  const Folder folder;
  const auto bash =
      folder.run("capstan help --completion bash > complete.sh && bash -n complete.sh");
  EXPECT_EQ(bash.status, 0) << bash.output;
  const auto completed = folder.run(
      "bash -c '. ./complete.sh; COMP_WORDS=(capstan perf --ag); COMP_CWORD=2; _capstan; "
      "echo ${COMPREPLY[@]}; COMP_WORDS=(capstan ver); COMP_CWORD=1; _capstan; "
      "echo ${COMPREPLY[@]}'");
  EXPECT_THAT(completed.output, HasSubstr("--agent --against"));
  EXPECT_THAT(completed.output, HasSubstr("verify"));
  const auto fish = folder.run("capstan help --completion fish").output;
  EXPECT_THAT(fish, HasSubstr("__fish_seen_subcommand_from perf' -s n -s g -l ranks -r"));
  EXPECT_THAT(folder.run("capstan help --completion zsh").output, HasSubstr("#compdef capstan"));
}

/// The lines of a command's output that are longer than a terminal is wide.
std::vector<std::string> long_lines(const Folder& folder, const std::string& command) {
  std::istringstream output{folder.run("COLUMNS=80 capstan " + command).output};
  std::vector<std::string> found;
  int lines = 0;
  for (std::string line; std::getline(output, line); ++lines)
    if (line.size() > 80) found.push_back(line);
  EXPECT_GT(lines, 0) << command;
  return found;
}

TEST(Help, NoLineIsLongerThanTheTerminal) {
  const Folder folder;
  EXPECT_THAT(long_lines(folder, "--help"), ::testing::IsEmpty());
  for (const std::string command : commands)
    EXPECT_THAT(long_lines(folder, command + " --help"), ::testing::IsEmpty()) << command;
  folder.run("capstan tune all_reduce -n 2 --sizes 1K,64K --seconds 0.01 --despite-load -o p.json");
  for (const char* command :
       {"explain all_reduce --bytes 64K -n 8", "explain all_gather --hosts 2x4 --schedule 0",
        "explain all_reduce -n 2 --profile p.json", "verify all_reduce -n 2,3",
        "verify scan -n 2 --count 5 --show 1", "doctor", "settings", "topo --ranks 4",
        "topo --ranks 16 --synthetic 'package:2 numa:2 l3:1 l2:4 core:1 pu:2'",
        "simulate all_reduce -n 64 --fabric fat-tree", "tune --check p.json", "tune --judge p.json",
        "perf all_reduce -n 2 --sizes 64,64K --seconds 0.01",
        "perf all_reduce -n 2 --types all --sizes 1K --seconds 0.001",
        "tune all_reduce -n 2 --sizes 8 --seconds 0.01 -o p.json",
        "export all_reduce -a ring -n 3 --format text", "calibrate -n 2 -o c.json"})
    EXPECT_THAT(long_lines(folder, command), ::testing::IsEmpty()) << command;
}

/// --json prints JSON and nothing else, and --json=FILE writes it beside the text.
TEST(Help, JsonMeansTheSameInEveryCommand) {
  const Folder folder;
  for (const std::string command :
       {"explain all_reduce -n 2", "verify barrier -n 2", "doctor", "settings", "topo",
        "simulate barrier -n 4", "perf all_reduce -n 2 --sizes 8 --seconds 0.001",
        "tune all_reduce -n 2 --sizes 8 --seconds 0.001 --restart -o p.json"}) {
    const std::string words = command;
    const auto printed = folder.run("capstan " + words + " --json");
    EXPECT_EQ(printed.status, 0) << words << "\n" << printed.output;
    EXPECT_TRUE(nlohmann::json::accept(printed.output)) << words << "\n" << printed.output;
    const auto written = folder.run("capstan " + words + " --json=out.json");
    EXPECT_FALSE(nlohmann::json::accept(written.output)) << words;
    EXPECT_TRUE(nlohmann::json::accept(folder.run("cat out.json; rm out.json").output)) << words;
  }
  const auto order = folder.run("capstan perf --json all_reduce -n 2 --sizes 8 --seconds 0.001");
  EXPECT_TRUE(nlohmann::json::accept(order.output)) << order.output;
}

TEST(Help, TheVersionTellsTheCommit) {
  const Folder folder;
  const auto version = folder.run("capstan --version").output;
  EXPECT_TRUE(std::regex_match(
      version, std::regex{"capstan [0-9]+\\.[0-9]+\\.[0-9]+( \\([0-9a-f]{12}\\+?\\))?\n"}))
      << version;
}

}  // namespace
}  // namespace capstan
