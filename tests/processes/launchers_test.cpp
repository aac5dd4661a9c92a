// SPDX-License-Identifier: Apache-2.0

// The same worker under every launcher that this machine has.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/bootstrap/launchers/pmix.hpp"
#include "tests/free_port.hpp"
#include "tests/processes/processes.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool installed(const std::string& program) {
  return run_command({"sh", "-c", "command -v " + program}).status == 0;
}

void check_world(const std::vector<std::string>& launcher) {
  auto command = launcher;
  command.insert(command.end(), {WORKER_PROGRAM, "few_types"});
  const auto world = run_command(command);
  EXPECT_EQ(world.status, 0) << world.output;

  command = launcher;
  command.insert(command.end(), {CAPSTAN_PROGRAM, "perf", "all_reduce", "-b", "8", "-e", "32k",
                                 "--factor", "64", "--rounds", "2", "--seconds", "0.01"});
  const auto perf = run_command(command);
  EXPECT_EQ(perf.status, 0) << perf.output;
  EXPECT_THAT(perf.output, HasSubstr("over 4 ranks"));
  EXPECT_THAT(perf.output, HasSubstr("wrong values: 0"));
  EXPECT_THAT(leftovers(), IsEmpty());
}

TEST(Launchers, CapstanRun) {
  check_world({CAPSTAN_PROGRAM, "run", "-n", "4", "--"});
}

/// By hand, as of a task of srun's around `capstan run`, and of two inside.
TEST(Launchers, SlurmsStepAroundALaunchOfOneRankOrInside) {
  const std::string step =
      "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_STEP_TASKS_PER_NODE=2 "
      "SLURM_NODEID=0 SLURM_PROCID=";
  const std::string one = fmt::format("{} run -n 1 -- ", CAPSTAN_PROGRAM);
  const std::string rank = fmt::format("{} rank", WORKER_PROGRAM);
  const auto around = run_command({"sh", "-c", step + "1 " + one + rank});
  EXPECT_EQ(occurrences(around.output, "0 of 1"), 1) << around.output;
  const auto inside = run_command(
      {"sh", "-c", one + "sh -c '" + step + "0 " + rank + " & " + step + "1 " + rank + "; wait'"});
  EXPECT_EQ(occurrences(inside.output, "0 of 2"), 1) << inside.output;
  EXPECT_EQ(occurrences(inside.output, "1 of 2"), 1) << inside.output;
}

TEST(Launchers, OpenMpi) {
  if (!installed("mpirun.openmpi")) GTEST_SKIP() << "install openmpi-bin";
  check_world({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"});
}

TEST(Launchers, Mpich) {
  if (!installed("mpirun.mpich")) GTEST_SKIP() << "install mpich";
  check_world({"mpirun.mpich", "-n", "4"});
}

TEST(Launchers, Slurm) {
  const auto result =
      run_command({SLURM_NODE, "--", "srun", "-n", "4", WORKER_PROGRAM, "few_types"});
  if (result.status == 77) GTEST_SKIP() << result.output;
  EXPECT_EQ(result.status, 0) << result.output;
  const auto perf = run_command({SLURM_NODE, "--", "srun", "-n", "4", CAPSTAN_PROGRAM, "perf",
                                 "all_reduce", "-e", "1k", "--rounds", "2", "--seconds", "0.01"});
  EXPECT_THAT(perf.output, HasSubstr("wrong values: 0"));
  EXPECT_THAT(leftovers(), IsEmpty());
}

/// All three ranks have met, five times over.
void expect_joined(const CommandResult& result) {
  EXPECT_EQ(result.status, 0) << result.output;
  int lines = 0;
  for (auto at = result.output.find(" of 3 on "); at != result.output.npos;
       at = result.output.find(" of 3 on ", at + 1))
    ++lines;
  EXPECT_EQ(lines, 3 * 5) << result.output;
}

TEST(Launchers, OpenMpiByPmix) {
  if (!pmix::obstacle().empty()) GTEST_SKIP() << pmix::obstacle();
  if (!installed("mpirun.openmpi")) GTEST_SKIP() << "install openmpi-bin";
  expect_joined(run_command({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "3",
                             JOINER_PROGRAM, "again"},
                            {{"CAPSTAN_BOOTSTRAP", "pmix"}}));
}

/// Open MPI 5 brings a PMIx of its own, which a rank loads after PMIx has served Capstan.
TEST(Launchers, OpenMpi5FindsItsPmixBehindCapstans) {
  const std::string peer = PEERS "/openmpi5";
  if (!pmix::obstacle().empty()) GTEST_SKIP() << pmix::obstacle();
  if (!installed(peer + "/bin/mpirun")) GTEST_SKIP() << "scripts/setup --peers";
  expect_joined(run_command({peer + "/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "-n",
                             "3", JOINER_PROGRAM, "again", peer + "/lib/libmpi.so.40"},
                            {{"CAPSTAN_BOOTSTRAP", "pmix"}}));
}

TEST(Launchers, SlurmByPmixAndPmi2) {
  const auto srun = [](const char* mpi, const char* bootstrap) {
    return run_command(
        {SLURM_NODE, "--", "srun", std::string{"--mpi="} + mpi, "-n", "3", JOINER_PROGRAM, "again"},
        {{"CAPSTAN_BOOTSTRAP", bootstrap}});
  };
  const auto pmi2 = srun("pmi2", "auto");
  if (pmi2.status == 77) GTEST_SKIP() << pmi2.output;
  expect_joined(pmi2);
  EXPECT_THAT(srun("pmi2", "pmix").output, HasSubstr("Slurm offers no PMIx here"));
  if (!pmix::obstacle().empty()) GTEST_SKIP() << pmix::obstacle();
  expect_joined(srun("pmix", "auto"));
  expect_joined(srun("pmix", "pmix"));
  EXPECT_THAT(leftovers(), IsEmpty());
}

TEST(Launchers, TorchrunVariables) {
  // The port is the only thing that ranks must agree on beforehand.
  const std::string script = fmt::format(
      "for r in 0 1 2 3; do RANK=$r WORLD_SIZE=4 LOCAL_RANK=$r LOCAL_WORLD_SIZE=4 "
      "MASTER_ADDR=127.0.0.1 MASTER_PORT=$PORT {} few_types & pids=\"$pids $!\"; done; "
      "for p in $pids; do wait $p || exit 1; done",
      WORKER_PROGRAM);
  const auto port = std::to_string(free_port());
  const auto result = run_command({"sh", "-c", script}, {{"PORT", port}});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(leftovers(), IsEmpty());
}

}  // namespace
}  // namespace capstan
