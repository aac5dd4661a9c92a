// SPDX-License-Identifier: Apache-2.0

// Buffers on devices among processes on one host, and on simulated hosts.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "capstan/version.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/profiles/write_profile.hpp"
#include "tests/processes/stopped_rank.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class StagedProcesses : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(leftovers(), ::testing::IsEmpty()); }

  static void expect_right(int ranks, const std::string& what,
                           const std::vector<std::pair<std::string, std::string>>& settings = {}) {
    const auto result = run_command(
        {CAPSTAN_PROGRAM, "run", "-n", std::to_string(ranks), "--", WORKER_PROGRAM, what},
        settings);
    EXPECT_EQ(result.status, 0) << result.output;
  }
};

TEST_F(StagedProcesses, Collectives) {
  expect_right(2, "collectives");
  expect_right(3, "collectives", {{"CAPSTAN_PROGRESS_THREAD", "1"}});
}

TEST_F(StagedProcesses, CollectivesBetweenHosts) {
  expect_right(3, "collectives", {{"CAPSTAN_VIRTUAL_HOSTS", "2"}, {"CAPSTAN_NETWORK", "tcp"}});
}

TEST_F(StagedProcesses, Messages) {
  for (const char* direct : {"1", "0"})
    expect_right(3, "messages", {{"CAPSTAN_SINGLE_COPY", direct}});
  expect_right(3, "messages", {{"CAPSTAN_VIRTUAL_HOSTS", "3"}, {"CAPSTAN_NETWORK", "tcp"}});
}

TEST_F(StagedProcesses, CallsInStreamsNeedNoDriverUntilTheyHaveEnded) {
  for (const int ranks : {2, 3}) expect_right(ranks, "staged", {{"CAPSTAN_DEVICE_EXECUTOR", "0"}});
  expect_right(3, "staged", {{"CAPSTAN_VIRTUAL_HOSTS", "3"}, {"CAPSTAN_NETWORK", "tcp"}});
}

TEST_F(StagedProcesses, OfACallThatFailsNothingIsSeenOnTheDevice) {
  for (const char* count : {"2", "300000"}) {
    // The shell hides the death from the launcher, which would end the others.
    const auto result = run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--", "sh", "-c",
                                     fmt::format("{} killed {}; true", WORKER_PROGRAM, count)});
    EXPECT_EQ(occurrences(result.output, "PeerLost 1, untouched"), 2) << count << result.output;
    EXPECT_EQ(occurrences(result.output, "trouble"), 0) << result.output;
  }
}

class ProcessesOnDevices : public StagedProcesses {
 protected:
  static CommandResult run_worker(
      int ranks, const std::string& what,
      const std::vector<std::pair<std::string, std::string>>& settings = {}) {
    return run_command({CAPSTAN_PROGRAM, "run", "-n", std::to_string(ranks), "--", "sh", "-c",
                        fmt::format("{} {}; true", WORKER_PROGRAM, what)},
                       settings);
  }
};

/// Each maps the others' memory by the driver's handles.
TEST_F(ProcessesOnDevices, CollectivesRunByKernelsThatMeetInMemoryOfSeveralProcesses) {
  for (const int ranks : {2, 3, 4}) {
    const auto result = run_worker(ranks, "streams");
    EXPECT_EQ(occurrences(result.output, "36 of 36 calls by kernels: device executor, "), ranks)
        << result.output;
    EXPECT_EQ(occurrences(result.output, "trouble"), 0) << result.output;
  }
}

TEST_F(ProcessesOnDevices, TheyStageWhereTheSettingSaysSoOrHostsAreSeveral) {
  auto result = run_worker(3, "streams", {{"CAPSTAN_DEVICE_EXECUTOR", "0"}});
  EXPECT_EQ(occurrences(result.output,
                        "0 of 36 calls by kernels: pinned staging: rank 0: "
                        "CAPSTAN_DEVICE_EXECUTOR is 0"),
            3)
      << result.output;
  result = run_worker(3, "streams", {{"CAPSTAN_VIRTUAL_HOSTS", "3"}, {"CAPSTAN_NETWORK", "tcp"}});
  EXPECT_EQ(occurrences(result.output, "0 of 36 calls by kernels: pinned staging: "), 3)
      << result.output;
  EXPECT_EQ(occurrences(result.output, "trouble"), 0) << result.output;
}

/// Cells of all_reduce, each with one way that is no model's choice.
MeasuredGroup group_of_direct(std::optional<DeviceLink> devices) {
  MeasuredGroup group{.ranks = 3, .date = "2026-11-29T08:00:00Z"};
  group.devices = devices;
  for (const std::uint64_t bytes : {8U, 256U})
    group.cells.push_back(
        {.collective = Collective::all_reduce,
         .ranks = 3,
         .bytes = Bytes{bytes},
         .confidence = 1,
         .ways = {{.algorithm = &algorithm_named(Collective::all_reduce, "direct"),
                   .protocol = Protocol::staged,
                   .nanoseconds = 1000}}});
  return group;
}

/// The ranks use two devices, which have no link of their own.
TEST_F(ProcessesOnDevices, AProfileOfTheirLinksChoosesWhatRuns) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "profile.json";
  const auto way_by = [&](const MeasuredGroup& group) {
    write_profile({std::string{version()}, Fingerprint::of(Machine::discover()), {group}}, file);
    return run_worker(3, "way", {{"CAPSTAN_PROFILE", file}}).output;
  };
  for (const std::optional<DeviceLink> others :
       {std::optional<DeviceLink>{}, std::optional{DeviceLink::memory}}) {
    const std::string way = way_by(group_of_direct(others));
    EXPECT_EQ(occurrences(way, "PCIe or an unknown link: flat "), 3) << way;
  }
  const std::string way = way_by(group_of_direct(DeviceLink::bus));
  EXPECT_EQ(occurrences(way, "PCIe or an unknown link: direct staged, measured 1.00 us"), 3) << way;
}

TEST_F(ProcessesOnDevices, TheLogTellsHowCallsRun) {
  const std::string log = run_worker(3, "way", {{"CAPSTAN_LOG", "info"}}).output;
  EXPECT_EQ(occurrences(log, "all_reduce(3 x f32, sum) on devices: flat "), 1) << log;
}

/// Times of the stand-in say nothing about GPUs. What was measured is looked at alone.
TEST_F(ProcessesOnDevices, TuneMeasuresTheWaysInWhichKernelsRunCalls) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "profile.json";
  const auto tune = [&](const std::string& kernels) {
    return run_command(
        {CAPSTAN_PROGRAM, "tune", "all_reduce,broadcast", "-n", "3", "--device", "cuda", "--sizes",
         "64,4K", "--seconds", "0.01", "--despite-load", "-o", file},
        {{"LD_LIBRARY_PATH", FAKE_DRIVERS}, {"CAPSTAN_DEVICE_EXECUTOR", kernels}});
  };
  auto result = tune("0");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("calls do not run by kernels here (pinned staging: rank 0: "
                                       "CAPSTAN_DEVICE_EXECUTOR is 0)"));
  result = tune("1");
  if (result.output.find("has no kernels for CUDA") != std::string::npos) GTEST_SKIP();
  ASSERT_EQ(result.status, 0) << result.output;
  const Profile profile = parse_profile(read_profile_file(file), file);
  ASSERT_EQ(profile.groups.size(), 1U);
  EXPECT_EQ(profile.groups[0].devices, DeviceLink::bus) << "ranks use both devices";
  ASSERT_EQ(profile.groups[0].cells.size(), 4U);
  for (const MeasuredCell& cell : profile.groups[0].cells) {
    EXPECT_GT(cell.ways.size(), 3U);
    for (const MeasuredWay& way : cell.ways) EXPECT_FALSE(reads_buffers(way.protocol));
  }
  EXPECT_EQ(profile.groups[0].model.has_value(),
            std::ranges::any_of(profile.groups[0].cells, &MeasuredCell::decides))
      << "the constants of the link are fitted to cells that decide: none may under load";
}

TEST_F(ProcessesOnDevices, TheDeathOfOneEndsTheKernelsOfTheOthers) {
  const auto result = run_worker(3, "killed_beside_kernels");
  EXPECT_EQ(occurrences(result.output, "PeerLost 1"), 2) << result.output;
  EXPECT_EQ(occurrences(result.output, "trouble"), 0) << result.output;
}

TEST_F(ProcessesOnDevices, ARankThatIsStoppedWhileKernelsWaitIsNamed) {
  const auto result =
      run_with_a_stopped_rank(WORKER_PROGRAM " stopped_beside_kernels", {{"CAPSTAN_TIMEOUT", "4"}});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "rank 1 is stopped"), 2) << result.output;
}

/// The stand-in copies and computes; kernels of HIP are in a build that has its compiler.
TEST_F(ProcessesOnDevices, PerfMeasuresCallsInStreamsAndChecksTheirResults) {
  const std::vector<std::pair<std::string, std::string>> drivers{{"LD_LIBRARY_PATH", FAKE_DRIVERS}};
  const auto perf = [&](const std::string& collective, const std::string& vendor,
                        const std::vector<std::pair<std::string, std::string>>& more) {
    auto settings = drivers;
    settings.insert(settings.end(), more.begin(), more.end());
    return run_command({CAPSTAN_PROGRAM, "perf", collective, "-n", "3", "--device", vendor, "-b",
                        "1k", "-e", "8k", "-f", "8", "--seconds", "0.01", "--rounds", "2"},
                       settings);
  };
  for (const char* collective : {"all_reduce", "all_gather", "broadcast", "reduce_scatter"}) {
    const auto result = perf(collective, "cuda", {});
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_THAT(result.output, AnyOf(HasSubstr("# by device executor, "),
                                     HasSubstr("this build of Capstan has no kernels for CUDA")))
        << collective;
    EXPECT_THAT(result.output, HasSubstr("# wrong values: 0")) << collective;
  }
  for (const char* vendor : {"cuda", "hip"}) {
    const auto result = perf("all_reduce", vendor, {{"CAPSTAN_DEVICE_EXECUTOR", "0"}});
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("# by pinned staging: ")) << vendor;
    EXPECT_THAT(result.output, HasSubstr("# wrong values: 0")) << vendor;
  }
  const auto none = perf("all_reduce", "hip", {{"LD_LIBRARY_PATH", "/proc/nowhere"}});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.output, HasSubstr("--device hip: libamdhip64.so cannot be loaded"));
}

TEST_F(StagedProcesses, TheDoctorSaysHowTheyTravelAndWhy) {
  const auto result = run_command({CAPSTAN_PROGRAM, "doctor"}, {{"LD_LIBRARY_PATH", FAKE_DRIVERS},
                                                                {"CAPSTAN_PINNED_MEMORY", "2g"}});
  EXPECT_THAT(result.output,
              HasSubstr("CUDA: staged through pinned host memory, up to 2 GiB a rank, since "));
  EXPECT_THAT(result.output,
              ContainsRegex("CUDA driver +OK +2 devices \\(0000:a0:00.0, 0000:b0:00.0\\); "
                            "peer access among all, by PCIe or an unknown link"));
  EXPECT_THAT(result.output, ContainsRegex("HIP runtime +OK +2 devices"));
}

}  // namespace
}  // namespace capstan
