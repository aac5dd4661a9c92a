// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/bootstrap/launch_variables.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Variables that each launcher leaves to the only rank of a job.
const std::map<std::string, Variables> of_one_rank{
    {"capstan run",
     {{"CAPSTAN_RANK", "0"},
      {"CAPSTAN_SIZE", "1"},
      {"CAPSTAN_STORE", "@capstan-run-1"},
      {"CAPSTAN_SECRET", "0123456789abcdef"}}},
    {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}},
    {"MPICH", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}},
    {"Slurm",
     {{"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "1"},
      {"SLURM_LOCALID", "0"},
      {"SLURM_JOB_ID", "7"},
      {"SLURM_STEP_ID", "0"}}}};

TEST(NestedLaunch, TorchsVariablesCountInsideOfALaunchOfOneRank) {
  for (const bool by_torchrun : {true, false})
    for (const auto& [launcher, outer] : of_one_rank) {
      const auto inner = by_torchrun ? torchrun : without(torchrun, "TORCHELASTIC_RUN_ID");
      SCOPED_TRACE(launcher);
      const Launch launch = detect(with(outer, inner));
      expect_place(launch, 5, 8, 1, 4);
      ASSERT_TRUE(launch.store);
      EXPECT_EQ(std::get<TcpEndpoint>(launch.store->endpoint).host, "node0");
      EXPECT_THAT(complaint(with(outer, without(inner, "MASTER_ADDR"))), HasSubstr("MASTER_ADDR"));
      EXPECT_EQ(detect(outer).launcher, launcher);
    }
}

TEST(NestedLaunch, OneRankOfOneLauncherAndOneOfManyOfAnotherIsAContradiction) {
  EXPECT_THAT(complaint(with(of_one_rank.at("capstan run"), open_mpi)),
              AllOf(HasSubstr("capstan run"), HasSubstr("Open MPI as rank 2 of 4")));
  EXPECT_THAT(complaint(with(of_one_rank.at("Open MPI"), mpich)),
              AllOf(HasSubstr("Open MPI"), HasSubstr("MPICH as rank 1 of 2")));
  EXPECT_THAT(complaint(with(of_one_rank.at("Open MPI"), slurm)),
              AllOf(HasSubstr("Open MPI"), HasSubstr("Slurm as rank 4 of 7")))
      << "no ancestor shows which";
  const Variables torchrun_of_one{
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  EXPECT_EQ(detect(with(open_mpi, with(torchrun, torchrun_of_one))).size, 1)
      << "torchrun is the innermost launcher";
}

/// Every launcher's only rank, with traces of every other launcher's job of several.
TEST(NestedLaunch, TheOnlyRankOfOneLaunchIsNoWorldOfOneInsideAnother) {
  const std::vector<std::pair<Variables, std::string>> traces{
      {{{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}}, "MV2_COMM_WORLD_SIZE=2"},
      {{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}}, "FLUX_JOB_SIZE=2"},
      {{{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}}, "HOROVOD_SIZE=2"},
      {{{"PALS_RANKID", "1"}}, "PALS_RANKID=1"},
      {{{"GROUP_RANK", "0"}, {"GROUP_WORLD_SIZE", "2"}}, "GROUP_WORLD_SIZE=2"}};
  Variables torch_of_one{{"RANK", "0"},
                         {"WORLD_SIZE", "1"},
                         {"LOCAL_RANK", "0"},
                         {"LOCAL_WORLD_SIZE", "1"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "29500"}};
  auto outer = of_one_rank;
  outer.emplace("torchrun", torch_of_one);
  for (const auto& [launcher, variables] : outer) {
    EXPECT_EQ(detect(variables).size, 1) << launcher;
    for (const auto& [trace, named] : traces)
      EXPECT_THAT(complaint(with(variables, trace)), HasSubstr(named)) << launcher;
    if (launcher == "torchrun") continue;
    EXPECT_THAT(complaint(with(variables, {{"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}})),
                HasSubstr("WORLD_SIZE=2"))
        << launcher;
  }
  EXPECT_EQ(detect(with(of_one_rank.at("Open MPI"), {{"PMIX_RANK", "0"}})).size, 1);
  EXPECT_EQ(detect(with(open_mpi, with(torch_of_one, {{"TORCHELASTIC_RUN_ID", "7"},
                                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                                      {"PMIX_RANK", "2"}})))
                .size,
            1)
      << "torchrun is the innermost launcher";
}

TEST(NestedLaunch, TorchsVariablesOfAnotherPlaceAreAContradiction) {
  const Variables other{
      {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1234"}};
  EXPECT_THAT(complaint(with(mpich, other)),
              AllOf(HasSubstr("MPICH has started this process as rank 1 of 2"),
                    HasSubstr("RANK and WORLD_SIZE say rank 3 of 4"), HasSubstr("unset")));
  EXPECT_THAT(complaint(with(open_mpi, other)), HasSubstr("rank 2 of 4"));
  for (const Variables& same :
       {Variables{{"RANK", "2"}, {"WORLD_SIZE", "4"}},
        Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Variables{{"RANK", "3"}}})
    EXPECT_EQ(detect(with(open_mpi, same)).size, 4);
}

/// Every two launchers: neither is taken for the inner one, and the error names the variables of
/// both.
TEST(NestedLaunch, TwoLaunchersThatSayDifferentPlacesAreAContradiction) {
  struct Numbers {
    std::string rank, size;
  };
  const std::vector<Numbers> launchers{{"CAPSTAN_RANK", "CAPSTAN_SIZE"},
                                       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                       {"PMI_RANK", "PMI_SIZE"},
                                       {"RANK", "WORLD_SIZE"},
                                       {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};
  const Variables meeting{{"CAPSTAN_STORE", "node0:4711"},
                          {"CAPSTAN_SECRET", "0123456789abcdef"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"}};
  for (std::size_t a = 0; a + 1 < launchers.size(); ++a)
    for (std::size_t b = a + 1; b < launchers.size(); ++b) {
      const auto both = [&](const std::string& rank, const std::string& size) {
        return with(meeting, {{launchers[a].rank, "1"},
                              {launchers[a].size, "2"},
                              {launchers[b].rank, rank},
                              {launchers[b].size, size}});
      };
      if (launchers[a].rank == "RANK") continue;  // by torch's variables a program is the inner one
      for (const auto& other : {both("0", "2"), both("1", "3")})
        EXPECT_THAT(complaint(other),
                    AllOf(HasSubstr("as rank 1 of 2 (" + launchers[a].rank),
                          HasSubstr(launchers[b].rank + " and " + launchers[b].size + " say rank"),
                          HasSubstr("unset")))
            << launchers[a].rank << " " << launchers[b].rank;
      EXPECT_EQ(detect(both("1", "2")).rank, 1);
      EXPECT_EQ(detect(both("0", "1")).size, 2) << "the other started a single process";
    }
  const Variables of_step{{"PMI_RANK", "4"}, {"PMI_SIZE", "7"}};
  EXPECT_EQ(detect(with(with(open_mpi, slurm), of_step)).size, 4) << "srun's, which started mpirun";
}

TEST(NestedLaunch, ALocalRankBeyondTheJobIsAContradiction) {
  const std::vector<std::pair<std::string, std::string>> local_ranks{
      {"capstan run", "CAPSTAN_LOCAL_RANK"},
      {"Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"MPICH", "MPI_LOCALRANKID"},
      {"Slurm", "SLURM_LOCALID"}};
  for (const auto& [launcher, name] : local_ranks)
    EXPECT_THAT(complaint(with(of_one_rank.at(launcher), {{name, "1"}})),
                AllOf(HasSubstr(name + "=1"), HasSubstr("=1: ")))
        << launcher;
}

TEST(NestedLaunch, TracesOfUnknownLaunchersAreNotAWorldOfOne) {
  const std::vector<std::pair<Variables, std::string>> traces{
      {{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "prterun-1@1"}}, "PMIX_RANK=0"},
      {{{"PMIX_RANK", "1"}}, "PMIX_RANK=1"},
      {{{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}}, "MV2_COMM_WORLD_SIZE=2"},
      {{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}}, "FLUX_JOB_SIZE=2"},
      {{{"FLUX_TASK_RANK", "1"}}, "FLUX_TASK_RANK=1"},
      {{{"PALS_RANKID", "0"}}, "PALS_RANKID=0"},
      {{{"ALPS_APP_PE", "0"}}, "ALPS_APP_PE=0"},
      {{{"JSM_NAMESPACE_RANK", "0"}}, "JSM_NAMESPACE_RANK=0"},
      {{{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "4"}}, "HOROVOD_SIZE=4"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE=2"},
      {{{"WORLD_SIZE", " +2 "}, {"LOCAL_RANK", "0"}}, "WORLD_SIZE=2"},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}, "SLURM_STEP_NUM_TASKS=2"},
      {{{"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}, "WORLD_SIZE=2"},
      {{{"RANK", "3"}}, "RANK=3"},
      {{{"LOCAL_RANK", "1"}}, "LOCAL_RANK=1"},
      {{{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}}, "MPI_LOCALNRANKS=2"},
      {{{"ROLE_RANK", "1"}}, "ROLE_RANK=1"},
      {{{"ROLE_WORLD_SIZE", "2"}}, "ROLE_WORLD_SIZE=2"},
      {{{"SLURM_PROCID", "1"}}, "SLURM_PROCID=1"},
      {{{"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "1"}}, "SLURM_LOCALID=1"},
      {{{"RANK", "0"}}, "WORLD_SIZE is not set"},
      {{{"LOCAL_RANK", "0"}}, "LOCAL_WORLD_SIZE is not set"},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "7"}}, "SLURM_PROCID is not set"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}, "SLURM_STEP_ID is not set"},
      {{{"PALS_LOCAL_RANKID", "0"}}, "PALS_LOCAL_RANKID=0"},
      {{{"CAPSTAN_LOCAL_RANK", "1"}}, "CAPSTAN_LOCAL_RANK=1"},
      {{{"MPIRUN_RANK", "0"}, {"MPIRUN_NPROCS", "2"}}, "MPIRUN_NPROCS=2"},
      {{{"JAX_PROCESS_ID", "0"}, {"JAX_NUM_PROCESSES", "2"}}, "JAX_NUM_PROCESSES=2"},
      {{{"DMLC_WORKER_ID", "0"}, {"DMLC_NUM_WORKER", "2"}}, "DMLC_NUM_WORKER=2"},
      {{{"OMPI_COMM_WORLD_NODE_RANK", "0"}}, "OMPI_COMM_WORLD_NODE_RANK=0"},
      {{{"PMI_ID", "0"}}, "PMI_ID=0"},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}, "SLURM_NTASKS=2"},
      {{{"SLURM_STEPID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NPROCS", "2"}}, "SLURM_NPROCS=2"}};
  for (const auto& [variables, named] : traces)
    EXPECT_THAT(complaint(variables), AllOf(HasSubstr(named), HasSubstr("unset"))) << named;
  for (const Variables& alone :
       {Variables{{"WORLD_SIZE", "1"}}, Variables{{"RANK", "-1"}, {"LOCAL_RANK", "-1"}},
        Variables{{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "1"}},
        Variables{{"RANK", "first"}, {"LOCAL_RANK", ""}}})
    EXPECT_EQ(detect(alone).size, 1);
  EXPECT_EQ(detect({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"SLURM_STEP_ID", "0"}}).size, 2)
      << "no task of Slurm's, but a rank of mpirun's inside of a step";
}

}  // namespace
}  // namespace capstan
