// SPDX-License-Identifier: Apache-2.0

// `capstan topo` as a program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/machine_with_devices.hpp"
#include "tests/processes/processes.hpp"

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

}  // namespace
}  // namespace capstan
