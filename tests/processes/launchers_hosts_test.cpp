// SPDX-License-Identifier: Apache-2.0

// Programs started over two hosts, which are network namespaces, by the launchers of MPI and Slurm,
// without any setting of Capstan's.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "core/bootstrap/launchers/pmix.hpp"
#include "tests/processes/testbed.hpp"

namespace capstan {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Skips the test where there can be no bed, or no Slurm on it.
#define REQUIRE_BED(result) \
  if ((result).status == 77) GTEST_SKIP() << (result).output

bool installed(const std::string& program) {
  return run_command({"sh", "-c", "command -v " + program}).status == 0;
}

struct Launcher {
  const char* name;
  const char* program;
  /// `start COMMAND...` runs two ranks on each host. Ranks have $rank in the variable below.
  const char* start;
  const char* rank;
  /// The launcher's message when rank 1 kills itself.
  const char* killed;
  /// Lets `start`'s ranks outlive a failed one.
  const char* tolerant;
  bool by_pmix = false;
};

std::ostream& operator<<(std::ostream& out, const Launcher& launcher) {
  return out << launcher.name;
}

constexpr const char* slots = "list() { printf '%s:2\\n' ${host[@]} | paste -sd,; }\n";

constexpr Launcher open_mpi{
    "OpenMpi",    "mpirun.openmpi",
    R"(start() {
         on 0 mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent $BED_RSH \
           --mca oob_tcp_if_include eth0 --host $(list) $more "$@"
       })", "OMPI_COMM_WORLD_RANK", "exited on signal 9 (Killed)", "more=--enable-recovery",
    true};
constexpr Launcher mpich{"Mpich",        "mpirun.mpich",
                         R"(start() {
         on 0 mpirun.mpich -launcher rsh -launcher-exec $BED_RSH -n 4 -hosts $(list) $more "$@"
       })",   "PMI_RANK",
                         "EXIT CODE: 9", "more=-disable-auto-cleanup"};
constexpr Launcher mpich_port{"MpichByPort",  "mpirun.mpich",
                              R"(start() {
         on 0 mpirun.mpich -pmi-port -launcher rsh -launcher-exec $BED_RSH -n 4 -hosts $(list) \
           $more "$@"
       })",   "PMI_ID",
                              "EXIT CODE: 9", "more=-disable-auto-cleanup"};
constexpr Launcher slurm_pmi2{"SlurmByPmi2",    "srun",
                              R"(start() {
         $SLURM_NODE --bed --timeout 200 -- srun --mpi=pmi2 -N 2 -n 4 --ntasks-per-node=2 $more "$@"
       })",     "SLURM_PROCID",
                              "task 1: Killed", "more=--kill-on-bad-exit=0"};
constexpr Launcher slurm_pmix{
    "SlurmByPmix", "srun",
    R"(start() {
         $SLURM_NODE --bed --timeout 200 -- srun --mpi=pmix -N 2 -n 4 --ntasks-per-node=2 $more "$@"
       })",  "SLURM_PROCID", "task 1: Killed", "more=--kill-on-bad-exit=0", true};

/// Slurm's daemon on one host gives up after a few attempts to reach that on another, which may not
/// have got a core yet: what its ranks put does not arrive then. It does not always say so, and a
/// rank that asked waits for the answer in vain.
bool daemons_met(const CommandResult& result) {
  return result.output.find("exceeded the retry limit") == std::string::npos &&
         result.output.find("left nothing with the launcher's PMIx within 60 s") ==
             std::string::npos;
}

CommandResult beside(const Launcher& launcher, const std::string& script, int hosts = 2) {
  const auto run = [&] {
    return beside_hosts(
        hosts, fmt::format("SLURM_NODE={} WORKER={} MPI_BESIDE={}\nmore=''\n{}{}\n{}\n", SLURM_NODE,
                           WORKER_PROGRAM, MPI_BESIDE, slots, launcher.start, script));
  };
  auto result = run();
  for (int again = 0; again < 2 && !daemons_met(result); ++again) result = run();
  return result;
}

class OverHosts : public ::testing::TestWithParam<Launcher> {
 protected:
  void SetUp() override {
    if (GetParam().by_pmix && !pmix::obstacle().empty()) GTEST_SKIP() << pmix::obstacle();
    if (!installed(GetParam().program)) GTEST_SKIP() << "install " << GetParam().program;
  }
  void TearDown() override { EXPECT_THAT(leftovers(), IsEmpty()); }
};

INSTANTIATE_TEST_SUITE_P(All, OverHosts,
                         ::testing::Values(open_mpi, mpich, mpich_port, slurm_pmi2, slurm_pmix),
                         [](const auto& test) { return std::string{test.param.name}; });

/// Every rank has met the others, `times` times over, and has seen that many hosts.
void expect_joined(const CommandResult& result, int ranks, int hosts, int times = 1) {
  EXPECT_EQ(result.status, 0) << result.output;
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(occurrences(result.output, fmt::format("rank {} of {} on ", rank, ranks)), times)
        << result.output;
  EXPECT_EQ(occurrences(result.output, fmt::format(", {} hosts, by ", hosts)), ranks * times)
      << result.output;
}

TEST_P(OverHosts, RanksMeetAgainAndAgainWithoutAnySetting) {
  const auto result = beside(GetParam(), "start $program again");
  REQUIRE_BED(result);
  expect_joined(result, 4, 2, 5);
}

/// Each rank has two segments of its own and two of the one other rank on its host.
TEST_P(OverHosts, SumsAreRightByMemoryWithinAHostAndTheNetworkBetween) {
  const auto result = beside(GetParam(), "start $WORKER carries");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_THAT(result.output,
                ContainsRegex(fmt::format("rank {} of 4: right sums, 4 segments, connected to "
                                          "(10.77.0.{} )?10.77.0.{}",
                                          rank, rank < 2 ? 1 : 2, rank < 2 ? 2 : 1)));
}

TEST_P(OverHosts, AKilledRankEndsTheJob) {
  const auto result = beside(GetParam(), "start $WORKER kill 1000; echo \"status $?\"");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, HasSubstr(GetParam().killed));
  EXPECT_EQ(result.output.find("status 0\n"), result.output.npos) << result.output;
}

/// Where the launcher is told to let them live; MPICH's sends them a signal. What they say may get
/// lost with the one that has died: they leave it in files.
TEST_P(OverHosts, EveryRankThatOutlivesAnotherIsToldWhichOneWasKilled) {
  const auto result = beside(GetParam(), fmt::format(R"(
    {}
    export WORKER prefix=/tmp/$BED.rank
    start bash -c 'trap "" USR1; $WORKER kill 1000 >$prefix${} 2>&1; true'
    for rank in 0 1 2 3; do echo of $rank: $(cat $prefix$rank); done; rm -f $prefix?)",
                                                     GetParam().tolerant, GetParam().rank));
  REQUIRE_BED(result);
  for (const int rank : {0, 2, 3})
    EXPECT_THAT(result.output, HasSubstr(fmt::format("of {}: PeerLost 1: rank ", rank)));
}

TEST_P(OverHosts, WhatKeepsRankZeroFromOpeningAStoreIsToldToAll) {
  const auto result =
      beside(GetParam(), "start env CAPSTAN_INTERFACE=eth7 sh -c \"$JOINER; true\"");
  REQUIRE_BED(result);
  EXPECT_EQ(occurrences(result.output, "rank 0 opened no store: "), 3) << result.output;
  EXPECT_EQ(occurrences(result.output, "\"eth7\": there is no such interface"), 4) << result.output;
}

TEST_P(OverHosts, ARankZeroThatNeverComesIsAnErrorInTime) {
  const auto result = beside(GetParam(), fmt::format(R"(
    export JOINER
    start env CAPSTAN_JOIN_TIMEOUT=1 sh -c '[ ${} = 0 ] || $JOINER; true')",
                                                     GetParam().rank));
  REQUIRE_BED(result);
  const char* const expected =
      GetParam().by_pmix ? "join: rank 0 left nothing with the launcher's PMIx within 1 s"
                         : "join: not all ranks of the job have come to the launcher's PMI "
                           "within 1 s";
  EXPECT_EQ(occurrences(result.output, expected), 3) << result.output;
}

TEST_P(OverHosts, TheDoctorSaysHowRanksWouldMeetAndWhy) {
  const auto result = beside(GetParam(), "start $CAPSTAN doctor");
  REQUIRE_BED(result);
  EXPECT_EQ(occurrences(result.output,
                        fmt::format("by the launcher's {}: {} has started 2 of 4 "
                                    "ranks on this host",
                                    GetParam().by_pmix ? "PMIx" : "PMI",
                                    std::string_view{GetParam().name}.starts_with("Slurm") ? "Slurm"
                                    : GetParam().by_pmix ? "Open MPI"
                                                         : "MPICH")),
            4)
      << result.output;
}

// Particular launchers.

TEST(OverHostsOpenMpi, RanksMeetThoughTheyComeLateAndOverThreeHosts) {
  if (!pmix::obstacle().empty()) GTEST_SKIP() << pmix::obstacle();
  if (!installed("mpirun.openmpi")) GTEST_SKIP() << "install openmpi-bin";
  const auto result = beside(
      open_mpi, "start sh -c '[ $OMPI_COMM_WORLD_RANK != 0 ] || sleep 1; exec '\"$program\"", 3);
  REQUIRE_BED(result);
  expect_joined(result, 6, 3);
}

TEST(OverHostsOpenMpi, RanksMeetAtANamedStore) {
  if (!installed("mpirun.openmpi")) GTEST_SKIP() << "install openmpi-bin";
  const auto result = beside(open_mpi, R"(
    export JOINER
    start env CAPSTAN_BOOTSTRAP=tcp sh -c '$JOINER; true'
    start env CAPSTAN_BOOTSTRAP=tcp CAPSTAN_STORE=[${v6[0]}]:4711 CAPSTAN_SECRET=0123456789abcdef \
      $program)");
  REQUIRE_BED(result);
  expect_joined(result, 4, 2);
  EXPECT_EQ(occurrences(result.output, "no address is known where all can meet"), 4)
      << result.output;
}

TEST(OverHostsMpich, RanksMeetAtANamedStore) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "install mpich";
  const auto result = beside(mpich, R"(
    start env CAPSTAN_STORE=${v4[0]}:4711 CAPSTAN_SECRET=0123456789abcdef $program again)");
  REQUIRE_BED(result);
  expect_joined(result, 4, 2, 5);
}

TEST(OverHostsMpich, ADescriptorThatWasNotPassedOnIsAnError) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "install mpich";
  const auto result = beside(mpich, R"(
    export JOINER
    start bash -c 'eval "exec $PMI_FD>&-"; $JOINER; true')");
  REQUIRE_BED(result);
  EXPECT_EQ(occurrences(result.output, "which is no socket of the launcher's here"), 4)
      << result.output;
}

TEST(OverHostsMpich, PmiServesOneHostToo) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "install mpich";
  // A rank that fails makes mpirun end the others, and throw away what it has not read from them.
  const std::string rank = fmt::format("{} || echo failed with $?", JOINER_PROGRAM);
  const auto run = [&rank](const char* what) {
    return run_command({"mpirun.mpich", "-n", "2", "sh", "-c", rank},
                       {{"CAPSTAN_BOOTSTRAP", what}});
  };
  expect_joined(run("pmi"), 2, 1);
  const auto result = run("pmix");
  EXPECT_EQ(occurrences(result.output, "MPICH offers no PMIx here"), 2) << result.output;
  EXPECT_EQ(occurrences(result.output, "failed with 3\n"), 2) << result.output;
}

// Programs that use MPI beside Capstan.

bool built_beside(const std::string& mpi) {
  return std::filesystem::exists(MPI_BESIDE + mpi);
}

/// Two worlds of four ranks, each in agreement with MPI.
void expect_alike(const CommandResult& result, int worlds) {
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, " of 4: alike\n"), 4 * worlds) << result.output;
}

TEST(BesideMpi, MpichAndCapstanShareHydrasConnectionInAnyOrder) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "install mpich";
  if (!built_beside("mpich")) GTEST_SKIP() << "built without libmpich-dev, or with sanitizers";
  for (const char* order : {"first", "second"}) {
    const auto result = beside(mpich, fmt::format("start ${{MPI_BESIDE}}mpich {}", order));
    REQUIRE_BED(result);
    expect_alike(result, 2);
  }
}

TEST(BesideMpi, AfterMpisEndItIsAnErrorThatSaysSo) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "install mpich";
  if (!built_beside("mpich")) GTEST_SKIP() << "built without libmpich-dev, or with sanitizers";
  const auto result = beside(mpich, "start ${MPI_BESIDE}mpich late");
  REQUIRE_BED(result);
  EXPECT_EQ(occurrences(result.output, "MPI_Finalize has ended"), 4) << result.output;
}

TEST(BesideMpi, OpenMpiAndCapstanShareItsPmixInAnyOrder) {
  if (!pmix::obstacle().empty()) GTEST_SKIP() << pmix::obstacle();
  if (!installed("mpirun.openmpi")) GTEST_SKIP() << "install openmpi-bin";
  if (!built_beside("openmpi")) GTEST_SKIP() << "built without libopenmpi-dev, or with sanitizers";
  for (const char* order : {"first", "second"}) {
    const auto result = beside(open_mpi, fmt::format(R"(
      export OMPI_MCA_btl_tcp_if_include=eth0
      start ${{MPI_BESIDE}}openmpi {})",
                                                     order));
    REQUIRE_BED(result);
    expect_alike(result, 2);
  }
}

/// A second start of the conversation would end the job.
TEST(BesideMpi, SrunsPmiAndHydrasPortAreLeftToMpiAndAUniqueIdDoes) {
  if (!built_beside("mpich")) GTEST_SKIP() << "built without libmpich-dev, or with sanitizers";
  for (const Launcher& launcher : {slurm_pmi2, mpich_port}) {
    if (!installed(launcher.program)) GTEST_SKIP() << "install " << launcher.program;
    for (const char* order : {"first", "second"}) {
      const auto refused = beside(
          launcher,
          fmt::format("export MPI_BESIDE\nstart sh -c '${{MPI_BESIDE}}mpich {}; true'", order));
      REQUIRE_BED(refused);
      EXPECT_EQ(occurrences(refused.output, "this program has loaded an MPI library"), 4)
          << refused.output;
      EXPECT_EQ(occurrences(refused.output, "create_unique_id"), 4) << refused.output;
    }
    expect_alike(beside(launcher, "start ${MPI_BESIDE}mpich id"), 1);
  }
}

}  // namespace
}  // namespace capstan
