// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch.hpp"

namespace capstan {

using Variables = std::map<std::string, std::string>;

inline Environment environment(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

inline Launch detect(const Variables& variables) {
  return detect_launch(environment(variables));
}

inline std::string complaint(const Variables& variables) {
  try {
    detect(variables);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no complaint";
}

inline Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

inline Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

inline void expect_place(const Launch& launch, int rank, int size, int local_rank, int local_size) {
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.size, size);
  EXPECT_EQ(launch.local_rank, local_rank);
  EXPECT_EQ(launch.local_size, local_size);
}

inline const Variables capstan_run{
    {"CAPSTAN_RANK", "3"},           {"CAPSTAN_SIZE", "8"},
    {"CAPSTAN_LOCAL_RANK", "1"},     {"CAPSTAN_LOCAL_SIZE", "4"},
    {"CAPSTAN_STORE", "[::1]:4711"}, {"CAPSTAN_SECRET", "0123456789abcdef"}};
inline const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "2113404929"}};
inline const Variables mpich{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
inline const Variables torchrun{{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "none"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                         {"CAPSTAN_TRUSTED_NETWORK", "1"}};
inline const Variables slurm{{"SLURM_PROCID", "4"},         {"SLURM_NTASKS", "7"},
                      {"SLURM_LOCALID", "0"},        {"SLURM_NODEID", "2"},
                      {"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "1"},
                      {"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};

}  // namespace capstan
