// SPDX-License-Identifier: Apache-2.0

// Output of `capstan help`: all that --help says, as manual pages and completions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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

/// The commands that the program says it has.
const std::vector<std::string>& commands() {
  static const std::vector<std::string> all = [] {
    const Folder folder;
    std::istringstream help{folder.run("COLUMNS=200 capstan --help").output};
    std::vector<std::string> found;
    bool inside = false;
    for (std::string line; std::getline(help, line);) {
      if (inside && !line.starts_with("  ")) break;
      if (inside && line[2] != ' ') found.push_back(line.substr(2, line.find(' ', 2) - 2));
      inside = inside || line.starts_with("Subcommands:");
    }
    return found;
  }();
  return all;
}

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
  for (const std::string command : commands()) {
    const auto asked = folder.run("capstan help " + command);
    EXPECT_EQ(asked.status, 0) << asked.output;
    const auto own = folder.run("capstan " + command + " --help");
    EXPECT_EQ(long_options(asked.output), long_options(own.output)) << command;
    EXPECT_FALSE(long_options(own.output).empty()) << command;
  }
  EXPECT_THAT(folder.run("capstan help").output, HasSubstr("calibrate"));
  const auto unknown = folder.run("capstan help nothing");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.output, HasSubstr("there is no command 'nothing'; there are run mpi perf"));
}

TEST(Help, ManualPagesHaveAllOptionsAndExamples) {
  const Folder folder;
  for (const std::string command : commands()) {
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
  for (const std::string command : commands()) {
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
  for (const std::string command : commands())
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

/// The text of a command's help about an option; empty: it has none.
std::string help_on(const Folder& folder, const std::string& command, const std::string& option) {
  std::istringstream help{folder.run("COLUMNS=1000 capstan help " + command).output};
  std::string text;
  for (std::string line; std::getline(help, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const bool is_option = line.substr(begin).starts_with("-") && begin < 10;
    if (!text.empty() && (is_option || begin < 10)) break;
    if (is_option && std::regex_search(line, std::regex{"^ *([^ ]*,)?" + option + "[, ]"}))
      text = line;
    else if (!text.empty())
      text += line.substr(begin - 1);
  }
  return text;
}

TEST(Help, OptionsMeanTheSameInEveryCommand) {
  const Folder folder;
  ASSERT_GT(commands().size(), 10U);
  const std::map<std::string, std::string> meaning{
      {"-n", "--ranks.* (R|r)anks"},
      {"-b", "--(min-)?bytes.* (Bytes of the largest buffer|Smallest message)"},
      {"--bytes", "Bytes of the largest buffer"},
      {"--sizes", "comma-separated"},
      {"-a", "--algorithm"},
      {"--json", "Print JSON instead of text, or write it to a file as well: --json=FILE"},
      {"--chart", "HTML page of diagrams"},
      {"--hosts", "(h|H)osts"},
      {"--seconds", "(l|L)ong|about"},
      {"--root", "(r|R)oot"}};
  for (const auto& [option, text] : meaning) {
    int found = 0;
    for (const std::string& command : commands())
      if (const std::string said = help_on(folder, command, option); !said.empty()) {
        ++found;
        EXPECT_TRUE(std::regex_search(said, std::regex{text})) << command << ": " << said;
      }
    EXPECT_GT(found, 0) << option;
  }
  for (const char* command :
       {"export all_reduce -n 2 -a ring -b 4K", "explain all_reduce -n 2 -b 4K",
        "simulate all_reduce -n 4 -b 4K", "perf all_reduce -n 2 -b 4K -e 4K --seconds 0.001",
        "perf all_reduce -n 2 --sizes 4K --seconds 0.001",
        "tune all_reduce -n 2 --sizes 4K --seconds 0.001 -o p.json"})
    EXPECT_EQ(folder.run(std::string{"capstan "} + command).status, 0) << command;
}

/// `run` prints what its program prints, `export` and `calibrate` write JSON anyway.
const std::set<std::string> without_json{"run", "mpi", "export", "calibrate", "help"};

/// --json prints JSON and nothing else, and --json=FILE writes it beside the text.
TEST(Help, JsonMeansTheSameInEveryCommand) {
  const Folder folder;
  std::set<std::string> tried;
  for (const std::string command :
       {"explain all_reduce -n 2", "verify barrier -n 2", "doctor", "settings", "topo",
        "simulate barrier -n 4", "perf all_reduce -n 2 --sizes 8 --seconds 0.001",
        "tune all_reduce -n 2 --sizes 8 --seconds 0.001 --restart -o p.json", "ps"}) {
    const std::string words = command;
    tried.insert(words.substr(0, words.find(' ')));
    const auto printed = folder.run("capstan " + words + " --json");
    EXPECT_EQ(printed.status, 0) << words << "\n" << printed.output;
    EXPECT_TRUE(nlohmann::json::accept(printed.output)) << words << "\n" << printed.output;
    const auto written = folder.run("capstan " + words + " --json=out.json");
    EXPECT_FALSE(nlohmann::json::accept(written.output)) << words;
    EXPECT_TRUE(nlohmann::json::accept(folder.run("cat out.json; rm out.json").output)) << words;
  }
  for (const std::string& command : commands())
    EXPECT_NE(tried.contains(command), without_json.contains(command)) << command;
  const auto order = folder.run("capstan perf --json all_reduce -n 2 --sizes 8 --seconds 0.001");
  EXPECT_TRUE(nlohmann::json::accept(order.output)) << order.output;
}

/// Commands that may take long show the time that is left, on a terminal, from the first step on.
struct NumberOption {
  std::string name, limits;  ///< "--ranks", "1 to 4096"
};

/// The options of a command whose manual page says that they take a number.
std::vector<NumberOption> number_options(const Folder& folder, const std::string& command) {
  auto page = folder.run("capstan help --man " + command).output;
  page.erase(std::ranges::remove(page, '\\').begin(), page.end());
  const std::regex option{
      "\\.B (?:-[a-zA-Z], )*(--[a-z-]+)(?:, --[a-z-]+)* fI(?:INT|UINT|FLOAT)(?::([^\n]*))?fR"};
  std::vector<NumberOption> found;
  for (std::sregex_iterator at{page.begin(), page.end(), option}, end; at != end; ++at)
    found.push_back({(*at)[1], (*at)[2]});
  return found;
}

/// A shell tells those of these values that a command does not refuse by naming the option.
std::string not_refused(const Folder& folder, const std::string& command, const std::string& option,
                        const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += " '" + value + "'";
  return folder
      .run("for v in" + list + "; do timeout 60 capstan " + command + option +
           "\"$v\" >out 2>&1; s=$?; [ $s = 2 ] && grep -q -e " +
           option.substr(0, option.find('=')) + " out || echo \"'$v': $s, $(head -1 out)\"; done")
      .output;
}

/// NaN passes every comparison, and what is out of range wraps around or never ends.
TEST(Help, NumbersThatAreNoneAreRefusedByEveryOption) {
  const Folder folder;
  const std::set<std::string> limits_of_time{"--timeout", "--grace"};  // may be for ever
  std::size_t options = 0;
  for (const std::string command : commands())
    for (const auto& [name, limits] : number_options(folder, command)) {
      ++options;
      EXPECT_NE(limits, "") << command << " " << name << " accepts anything";
      std::vector<std::string> none{"nan", "-1", "1_0", " 1", "1k", ""};
      if (!limits_of_time.contains(name))
        none.insert(none.end(), {"inf", "1e300", "99999999999999999999"});
      const std::string program = command == "run" ? "run -n 1 " : command + " ";
      EXPECT_EQ(not_refused(folder, program, name + "=", none), "") << command << " " << name;
    }
  EXPECT_GT(options, 35U);
}

/// Options whose numbers have units or stand in lists read them themselves.
TEST(Help, SizesAndListsThatAreNoneAreRefused) {
  const Folder folder;
  const std::vector<std::string> none{"nan", "inf", "1e300", "-1", "99999999999999999999",
                                      " 1",  ""};
  for (const auto& [command, option] :
       std::vector<std::pair<std::string, std::string>>{{"perf -n 2 ", "--min-bytes="},
                                                        {"perf -n 2 ", "--max-bytes="},
                                                        {"perf -n 2 ", "--step="},
                                                        {"perf -n 2 ", "--sizes="},
                                                        {"perf broadcast -n 2 ", "--root="},
                                                        {"explain ", "--bytes="},
                                                        {"export all_reduce ", "--bytes="},
                                                        {"simulate ", "--bytes="},
                                                        {"simulate ", "--block="},
                                                        {"tune ", "--sizes="},
                                                        {"verify all_reduce ", "--ranks="},
                                                        {"verify all_reduce ", "--count="},
                                                        {"verify all_reduce ", "--hosts="},
                                                        {"simulate ", "--costs=send="},
                                                        {"simulate ", "--straggler=3:"},
                                                        {"simulate ", "--fabric=flat:bandwidth="},
                                                        {"simulate ", "--fabric=flat:radix="}})
    EXPECT_EQ(not_refused(folder, command, option, none), "") << command << option;
}

TEST(Help, SaysOnATerminalHowMuchIsLeft) {
  const Folder folder;
  if (folder.run("script --version").status != 0) GTEST_SKIP() << "no script(1)";
  for (const std::string command :
       {"perf all_reduce -n 2 --sizes 8,64,1K --seconds 0.01 --patience 0",
        "perf all_reduce -t 2 --sizes 8,64,1K --seconds 0.01 --patience 0",
        "perf messages -n 2 --sizes 8,64,1K --seconds 0.01 --patience 0",
        "perf all_reduce -n 2 --against all --sizes 8,64,1K --seconds 0.01 --rounds 1 --patience 0",
        "tune all_reduce -n 2 --sizes 8,64,1K --seconds 0.01 --despite-load -o p.json",
        "verify all_reduce -n 2,3", "simulate all_reduce -n 64 --fabric fat-tree"}) {
    const auto shown = folder.run("script -qefc 'capstan " + command + "' /dev/null < /dev/null");
    if (shown.output.find("was not built") != shown.output.npos) continue;  // no library to compare
    EXPECT_EQ(shown.status, 0) << command << shown.output;
    EXPECT_TRUE(std::regex_search(shown.output, std::regex{"[0-9] (s|min|h)[0-9 smin]* left"}))
        << command << shown.output;
    const auto piped = folder.run("capstan " + command + " 2>&1 | cat");
    EXPECT_EQ(piped.output.find(" left"), piped.output.npos) << command << piped.output;
  }
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
