// SPDX-License-Identifier: Apache-2.0

// Communicators over RDMA. Ranks are processes that the launcher spreads over two devices, so that
// data cross the wire. All collectives are right, and every remaining rank learns of every failure.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Ranks and their simulated hosts. Each host has a device to itself.
struct Spread {
  int ranks, hosts;
};

class VerbsRanks : public ::testing::TestWithParam<Spread> {
 protected:
  void SetUp() override {
    devices_ = verbs_devices();
    if (devices_.size() < 2) GTEST_SKIP() << "needs two RDMA devices";
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_THAT(leftovers(), ::testing::IsEmpty());
  }

  /// Runs a line of the shell as every rank, where $WORKER is the worker.
  CommandResult run_shell(const std::string& line, Environment environment = {}) const {
    std::string devices;
    for (int rank = 0; rank < ranks(); ++rank)
      devices += devices_[rank < ranks() / 2 ? 0 : 1].name + ",";
    environment.insert(environment.end(),
                       {{"CAPSTAN_NETWORK", "verbs"},
                        {"CAPSTAN_VIRTUAL_HOSTS", std::to_string(GetParam().hosts)},
                        {"CAPSTAN_RDMA_DEVICES", devices},
                        {"DEVICE_WORKER", DEVICE_WORKER_PROGRAM},
                        {"WORKER", WORKER_PROGRAM}});
    return run_command({CAPSTAN_PROGRAM, "run", "-n", std::to_string(ranks()), "--bind", "none",
                        "--timeout", "120", "--", "sh", "-c", line},
                       environment);
  }
  void expect_all_well(const std::string& what) const {
    const auto result = run_shell("exec $WORKER " + what);
    EXPECT_EQ(result.status, 0) << what << ": " << result.output;
  }

  static int ranks() { return GetParam().ranks; }
  static int survivors() { return ranks() - 1; }

 private:
  std::vector<VerbsDevice> devices_;
};

INSTANTIATE_TEST_SUITE_P(All, VerbsRanks, ::testing::Values(Spread{2, 2}, Spread{4, 2}),
                         [](const auto& test) {
                           return fmt::format("{}On{}", test.param.ranks, test.param.hosts);
                         });

TEST_P(VerbsRanks, EveryCollectiveIsRight) {
  expect_all_well("delays 150");
}

TEST_P(VerbsRanks, OperationsAndTypesAreRight) {
  expect_all_well("few_types all_reduce");
}

TEST_P(VerbsRanks, GroupsAreRight) {
  expect_all_well("groups");
}

TEST_P(VerbsRanks, MessagesAreRight) {
  expect_all_well("messages 200");
}

TEST_P(VerbsRanks, CardsReadAndWriteMemoryOfDevices) {
  const auto result = run_shell("exec $DEVICE_WORKER direct", {{"CAPSTAN_GPU_DIRECT", "always"}});
  EXPECT_EQ(result.status, 0) << result.output;
  // Each of fifteen receives flushes twice: to see whether it can, and when the data have come.
  EXPECT_EQ(
      occurrences(result.output, "0 copies, 2 allocations registered in each round, 30 flushes"),
      ranks())
      << result.output;
}

TEST_P(VerbsRanks, ProfilersTellWhichWayMessagesGo) {
  const std::string exchange = "exchange of 800000 bytes by ";
  auto result = run_shell("exec $DEVICE_WORKER recorded", {{"CAPSTAN_GPU_DIRECT", "always"}});
  EXPECT_EQ(occurrences(result.output, exchange + "network cards"), ranks()) << result.output;
  result = run_shell("exec $DEVICE_WORKER recorded");
  EXPECT_EQ(occurrences(result.output, exchange + "pinned staging"), ranks()) << result.output;
}

TEST_P(VerbsRanks, WhereOneRankStagesMessagesBetweenDevicesAreRight) {
  const auto result = run_shell(
      "[ $CAPSTAN_RANK = 1 ] && CAPSTAN_GPU_DIRECT=never || CAPSTAN_GPU_DIRECT=always\n"
      "export CAPSTAN_GPU_DIRECT; exec $DEVICE_WORKER messages");
  EXPECT_EQ(result.status, 0) << result.output;
}

/// Soft-RoCE copies with the processor, so nothing is detected.
TEST_P(VerbsRanks, WithoutACardThatReachesDevicesMessagesAreStaged) {
  const auto result = run_shell("exec $DEVICE_WORKER direct");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "0 allocations registered"), ranks()) << result.output;
}

TEST_P(VerbsRanks, AKilledRankIsNamedOnEverySurvivor) {
  for (const char* count : {"10", "100000"}) {
    // The shell hides the death from the launcher, which would end the others.
    const auto result = run_shell(fmt::format("$WORKER kill {}; true", count));
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "PeerLost 1:"), survivors()) << result.output;
  }
}

/// The device of a stopped rank still answers. The rank is killed when the others are done.
TEST_P(VerbsRanks, AStoppedRankIsATimeOut) {
  const test::TemporaryFolder done;
  const auto result = run_shell(
      fmt::format("$WORKER stop 100 & worker=$!\n"
                  "if [ $CAPSTAN_RANK = 1 ]; then\n"
                  "  until [ $(ls {0} | wc -l) = {1} ]; do sleep 0.1; done; kill -KILL $worker\n"
                  "fi\n"
                  "wait $worker; : >{0}/$CAPSTAN_RANK",
                  done.path().string(), survivors()),
      {{"CAPSTAN_TIMEOUT", "5"}});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "TimedOut:"), survivors()) << result.output;
}

}  // namespace
}  // namespace capstan
