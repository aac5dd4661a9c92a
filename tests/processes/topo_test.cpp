// SPDX-License-Identifier: Apache-2.0

// `capstan topo` as a program.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/machine_with_devices.hpp"
#include "tests/processes/processes.hpp"
#include "tests/sanitizers.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(Topo, ShowsDevicesWhereTheyAre) {
  const test::MachineWithDevices machine;
  const auto result =
      run_command({CAPSTAN_PROGRAM, "topo", "--ranks", "2", "--xml", machine.path()});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("eth7, mlx5_0 +network +0000:01:00.0 +31.5 GB/s +0"));
  EXPECT_THAT(result.output, ContainsRegex("\neth7, mlx5_0 +\\. S H M\n"));
  EXPECT_THAT(result.output, ContainsRegex("\n1 +31 +10\n"));
  EXPECT_THAT(result.output,
              ContainsRegex("Nearest to rank\n +0 +eth7, mlx5_0; card1; 0000:00:05.0\n"
                            " +1 +0001:01:00.0\n"));
}

TEST(Topo, TellsTheSameAsJson) {
  const test::MachineWithDevices machine;
  const auto result = run_command({CAPSTAN_PROGRAM, "topo", "--json", "--xml", machine.path()});
  EXPECT_EQ(result.status, 0) << result.output;
  const auto json = nlohmann::json::parse(result.output);
  const auto& card = json.at("devices").at(0);
  EXPECT_EQ(card.at("names"), (nlohmann::json{"eth7", "mlx5_0"}));
  EXPECT_EQ(card.at("numa_node"), 0);
  EXPECT_EQ(card.at("paths"),
            (nlohmann::json{"same_device", "same_switch", "same_host_bridge", "same_machine"}));
  EXPECT_EQ(json.at("numa_distances").at(1).at(0), 31);
}

TEST(Topo, DrawsEachPartOnce) {
  const test::MachineWithDevices machine;
  const std::string file = machine.path() + ".svg";
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "topo", "--ranks", "2", "--svg", file, "--xml", machine.path()});
  EXPECT_EQ(result.status, 0) << result.output;
  std::stringstream svg;
  svg << std::ifstream{file}.rdbuf();
  std::remove(file.c_str());
  for (const char* const part : {">package 1<", ">NUMA node 0<", ">core 1<", ">rank 1<",
                                 ">network: eth7, mlx5_0<", ">PCI 0001:01:00.0<"})
    EXPECT_EQ(occurrences(svg.str(), part), 1) << part;
  EXPECT_EQ(occurrences(svg.str(), ">Paper Adapter &lt;1&gt;<"), 4) << "of four devices";
  const auto unwritable =
      run_command({CAPSTAN_PROGRAM, "topo", "--svg", "/proc/no/such/machine.svg"});
  EXPECT_NE(unwritable.status, 0);
  EXPECT_THAT(unwritable.output, HasSubstr("/proc/no/such/machine.svg"));
}

// --- Files that lstopo has not written, on some of which libhwloc crashes or hangs ---

/// `text` without its `number`th attribute, or nothing if it has fewer.
std::string without_attribute(const std::string& text, int number) {
  std::size_t at = text.find("<topology");
  for (int i = 0; at != text.npos; ++i) {
    at = text.find("=\"", at + 1);
    if (at == text.npos || i < number) continue;
    const std::size_t begin = text.rfind(' ', at), end = text.find('"', at + 2);
    return text.substr(0, begin) + text.substr(end + 1);
  }
  return "";
}

/// A value, a piece or a repetition at a random place, up to four times.
std::string mutant(std::string text, unsigned seed) {
  constexpr std::array values{
      "0",  "-1",       "4294967295", "0xf...f", "",       "99999999999999999999",
      "PU", "NUMANode", "Machine",    "Bridge",  "L3Cache"};
  std::mt19937 random{seed};
  const auto below = [&](std::size_t end) { return random() % std::max<std::size_t>(end, 1); };
  for (std::size_t i = 0, count = 1 + below(4); i < count; ++i) {
    const std::size_t at = below(text.size());
    if (const std::size_t kind = below(3); kind == 0) {
      text.erase(at, below(60));
    } else if (kind == 1) {
      text.insert(at, text.substr(below(text.size()), below(200)));
    } else if (const std::size_t begin = text.find("=\"", at); begin != text.npos) {
      const std::size_t end = std::min(text.find('"', begin + 2), text.size());
      text.replace(begin + 2, end - begin - 2, values[below(values.size())]);
    }
  }
  return text;
}

/// Each file gives a result or an error, never a signal.
TEST(Topo, ReadsOrRefusesAnyFile) {
  const test::TemporaryFolder folder;
  std::stringstream whole;
  whole << std::ifstream{test::MachineWithDevices{}.path()}.rdbuf();
  int files = 0;
  const auto add = [&](const std::string& text) {
    std::ofstream{folder / fmt::format("{}.xml", files++)} << text;
  };
  for (int i = 0; i == 0 || !without_attribute(whole.str(), i).empty(); ++i)
    add(without_attribute(whole.str(), i));
  for (unsigned seed = 0; seed < 100; ++seed) add(mutant(whole.str(), seed));
  const auto result = run_command(
      {"sh", "-c",
       fmt::format("cd {}; for file in *.xml; do {} topo --xml $file >out 2>&1; "
                   "echo \"$file: status $?\"; grep -o 'crashed with signal 11' out; done",
                   folder.path().string(), CAPSTAN_PROGRAM)});
  EXPECT_EQ(occurrences(result.output, "status 0\n") + occurrences(result.output, "status 2\n"),
            files)
      << result.output;
  EXPECT_GT(files, 200);
  if (!sanitized) {
    EXPECT_THAT(result.output, HasSubstr("crashed with signal 11"));
  }
}

TEST(Topo, SaysThatAFileCrashesLibhwloc) {
  if (sanitized) GTEST_SKIP() << "a sanitizer has handlers of its own";
  const test::TemporaryFolder folder;
  std::stringstream whole;
  whole << std::ifstream{test::MachineWithDevices{}.path()}.rdbuf();
  std::string text = whole.str();
  const std::string lost = R"( complete_cpuset="0x1")";
  text.erase(text.find(lost, text.find("type=\"Package\"")), lost.size());
  std::ofstream{folder / "bad.xml"} << text;
  const auto result = run_command({CAPSTAN_PROGRAM, "topo", "--xml", folder / "bad.xml"});
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("bad.xml': libhwloc crashed with signal 11 (Segmentation "
                                       "fault) while reading it"));
}

}  // namespace
}  // namespace capstan
