// SPDX-License-Identifier: Apache-2.0

// Every row of the table for users of other benchmarks does what it says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/processes/processes.hpp"

namespace capstan {
namespace {

/// The commands of the table: first in the last column, in backticks.
std::vector<std::string> commands_of_table() {
  std::ifstream file{HABITS};
  std::vector<std::string> commands;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    inside = inside || line == "<a id=\"benchmarks\"></a>";
    if (!inside || !line.starts_with("| ") || line.starts_with("| habit") ||
        line.starts_with("| ---"))
      continue;
    const std::size_t column = line.rfind(" | ", line.size() - 3) + 3;
    EXPECT_EQ(line[column], '`') << line;
    commands.push_back(line.substr(column + 1, line.find('`', column + 1) - column - 1));
  }
  return commands;
}

/// The output of each of them, as a regular expression.
const std::map<std::string, std::string> prints{
    {"allreduce -np 2", "# all_reduce over 2 ranks"},
    {"all_reduce,broadcast -n 2", "broadcast  "},
    {"barrier -g 2", "# barrier over 2 ranks"},
    {"barrier -n 2,3", "# barrier over 3 ranks"},
    {"all_reduce -t 2", "threads of one process"},
    {"all_reduce -n 2 -b 8 -e 256 -f 2", "\n +128 "},
    {"all_reduce -n 2 -b 8 -e 64 -i 8", "\n +56 "},
    {"all_reduce -n 2 --sizes 8,1K,64K", "\n +65536 "},
    {"all_reduce -n 2 --sizes 0,8", "\n +0 "},
    {"all_reduce -n 2 -d f16,f32", " f16 "},
    {"all_reduce -n 2 -o max,sum", " max "},
    {"broadcast -n 2 -r all", "\n +1 +8 "},
    {"all_reduce -n 2 -w 5", "# wrong values: 0"},
    {"all_reduce -n 2 --iters 20", "# wrong values: 0"},
    {"all_reduce -n 2 -N 2 --sizes 8", "# cycle 2 of 2"},
    {"all_reduce -n 2 --rounds 5 --seconds 0.01", "# wrong values: 0"},
    {"barrier -n 2 -T 60", "# wrong values: 0"},
    {"all_reduce -n 2 -c 1", "# wrong values: 0"},
    {"all_reduce -n 2 --both-places", " in place"},
    {"all_reduce -n 2", "# mean busbw: [0-9.]+ GB/s"},
    {"all_reduce -n 2 --min-busbw 0.000001", "# mean busbw"},
    {"all_reduce -n 2 -F --json", "\"ranks_mean_us\": \\["},
    {"all_reduce -n 2 --percentiles", " p50 +p90 +p99 "},
    {"all_reduce -n 2 --rounds 3", " spread "},
    {"barrier -n 2", " alone "},
    {"all_reduce -n 2 --start", "by the start_ form"},
    {"all_reduce -n 2 --overlap computing", " overlap +start "},
    {"all_reduce -n 2 -m 100 --sizes 4K", "100 calls at once"},
    {"all_reduce -n 2 -m 100 --fused --sizes 4K", "100 buffers in one fused call"},
    {"all_reduce -n 4 --groups 2", "2 groups of 2 ranks each at once"},
    {"all_gather_v,all_to_all_v -n 2 --sizes 1K", "all_to_all_v +1024 "},
    {"all_reduce -n 2 --off-cache --sizes 64K", "buffers that no cache has"},
    {"all_reduce -n 2 -u 1", "1 elements off a page"},
    {"all_reduce -n 2 --buffers allocated", "allocated buffers"},
    {"latency -n 2 --sizes 8,64K", " latency "},
    {"bandwidth -n 4 --sizes 64K", "pairs of ranks: 2"},
    {"rate -n 2 -W 16 --sizes 8", "16 messages under way"},
    {"barrier -n 2 --list-ranks", "# rank 1: .*, pid [0-9]+, core"},
    {"barrier -n 2 -S 1", " 20[0-9-]+ [0-9:]+\n"},
    {"barrier -n 2 -M 1", "# memory: [0-9.]+ MiB resident"},
    {"all_reduce -n 2 -a ring", " ring +rule "},
    {"barrier -n 2 --json", "\"format\": \"capstan-results-1\""},
    {"all_reduce -n 2 --format csv", "\n8,2,f32,sum,"},
    {"all_reduce -n 2 --format markdown", "\n\\| ---: \\|"},
    {"all_reduce -n 2 --against all --sizes 8", "# cliffs: |was not built|none of them is here"}};

std::vector<std::string> words_of(const std::string& command) {
  std::istringstream stream{command};
  std::vector<std::string> words{CAPSTAN_PROGRAM, "perf"};
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(PerfHabits, EveryRowIsSo) {
  std::map<std::string, std::string> left = prints;
  for (const std::string& command : commands_of_table()) {
    ASSERT_TRUE(prints.contains(command)) << command << " is in the table alone";
    left.erase(command);
    std::vector<std::string> words = words_of(command);
    words.insert(words.end(), {"--patience", "0"});
    if (command.find("--seconds") == command.npos)
      words.insert(words.end(), {"--seconds", "0.001"});
    if (command.find("-b ") == command.npos && command.find("--sizes") == command.npos &&
        command.find("barrier") == command.npos)
      words.insert(words.end(), {"--sizes", "8"});
    const auto result = run_command(words, {{"COLUMNS", "200"}, {"CAPSTAN_AUTOTUNE", "0"}});
    EXPECT_EQ(result.status, 0) << command << "\n" << result.output;
    EXPECT_THAT(result.output, ::testing::ContainsRegex(prints.at(command))) << command;
  }
  for (const auto& [command, text] : left) ADD_FAILURE() << command << " is in no row";
}

}  // namespace
}  // namespace capstan
