// SPDX-License-Identifier: Apache-2.0

// Every few of the variables by which launchers tell ranks their places: two processes of a job
// find both their places, or both an error, and are never alone without a word.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bootstrap/launch_variables.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Pattern = std::vector<std::pair<std::string, std::string>>;  // "@" is the rank

const Pattern of_slurm{{"SLURM_PROCID", "@"},  {"SLURM_NTASKS", "2"},        {"SLURM_LOCALID", "@"},
                       {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "77"},       {"SLURM_NPROCS", "2"},
                       {"SLURM_NODEID", "0"},  {"SLURM_STEP_NUM_TASKS", "2"}};
const Pattern of_others{{"CAPSTAN_RANK", "@"},
                        {"CAPSTAN_SIZE", "2"},
                        {"CAPSTAN_LOCAL_RANK", "@"},
                        {"OMPI_COMM_WORLD_RANK", "@"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "@"},
                        {"PMI_RANK", "@"},
                        {"PMI_SIZE", "2"},
                        {"MPI_LOCALRANKID", "@"},
                        {"MPI_LOCALNRANKS", "2"},
                        {"PMIX_RANK", "@"},
                        {"RANK", "@"},
                        {"WORLD_SIZE", "2"},
                        {"LOCAL_RANK", "@"},
                        {"LOCAL_WORLD_SIZE", "2"},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "29500"},
                        {"TORCHELASTIC_RUN_ID", "none"},
                        {"FLUX_TASK_RANK", "@"},
                        {"FLUX_JOB_SIZE", "2"},
                        {"MV2_COMM_WORLD_RANK", "@"},
                        {"MV2_COMM_WORLD_SIZE", "2"},
                        {"PALS_RANKID", "@"},
                        {"JAX_PROCESS_ID", "@"},
                        {"JAX_NUM_PROCESSES", "2"}};

Variables of_rank(const Pattern& pattern, int rank) {
  Variables variables;
  for (const auto& [name, value] : pattern)
    variables[name] = value == "@" ? std::to_string(rank) : value;
  return variables;
}

/// "1 of 2", or the error.
std::string found(const Variables& variables) {
  try {
    const Launch launch = detect(variables);
    return std::to_string(launch.rank) + " of " + std::to_string(launch.size);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

std::string shown(const Pattern& pattern) {
  std::string text;
  for (const auto& [name, value] : pattern) text += name + "=" + value + " ";
  return text;
}

/// The variables that Slurm sets in shells and scripts where it has started no task; or such as
/// say nothing of a launch at all.
bool says_nothing_of_tasks(const Variables& variables) {
  const bool in_job = variables.contains("SLURM_JOB_ID") && !variables.contains("SLURM_STEP_ID");
  return std::ranges::all_of(variables, [&](const auto& variable) {
    const std::string& name = variable.first;
    return name.starts_with("MASTER_") || name == "SLURM_JOB_ID" || name == "SLURM_NODEID" ||
           (in_job && name.starts_with("SLURM_") && name != "SLURM_PROCID" &&
            name != "SLURM_LOCALID");
  });
}

/// Whether the first process cannot be told from the script that sbatch runs.
bool looks_like_a_script(const Variables& variables) {
  return variables.contains("SLURM_JOB_ID") && !variables.contains("SLURM_STEP_ID") &&
         variables.contains("SLURM_PROCID") && variables.contains("SLURM_LOCALID") &&
         std::ranges::all_of(variables, [](const auto& variable) {
           return variable.first.starts_with("SLURM_") || variable.first.starts_with("MASTER_");
         });
}

/// The places or errors that go wrong with it; empty if none do.
std::string fault(const Pattern& pattern) {
  std::string outcomes[2];
  int places = 0, named = 0;
  for (const int rank : {0, 1}) {
    outcomes[rank] = found(of_rank(pattern, rank));
    places += outcomes[rank] == std::to_string(rank) + " of 2";
    const auto says = [&](const std::string& text) {
      return outcomes[rank].find(text) != std::string::npos;
    };
    named += says("not set, though other variables show a start by") ||
             (says("set") && std::ranges::any_of(pattern, [&](const auto& variable) {
                return says(variable.first);
              }));
  }
  const Variables first = of_rank(pattern, 0);
  if (places == 2 || named == 2) return "";
  if (outcomes[0] == "0 of 1" && outcomes[1] == "0 of 1" && says_nothing_of_tasks(first)) return "";
  if (outcomes[0] == "0 of 1" && named == 1 && looks_like_a_script(first)) return "";
  return shown(pattern) + "\n  " + outcomes[0] + "\n  " + outcomes[1];
}

void check_every_few(const Pattern& all, std::size_t at_most, Pattern& chosen, std::size_t next,
                     std::vector<std::string>& faults) {
  if (const auto text = fault(chosen); !text.empty()) faults.push_back(text);
  if (chosen.size() == at_most || faults.size() >= 10) return;
  for (std::size_t i = next; i < all.size(); ++i) {
    chosen.push_back(all[i]);
    check_every_few(all, at_most, chosen, i + 1, faults);
    chosen.pop_back();
  }
}

std::vector<std::string> faults_of_every_few(const Pattern& all, std::size_t at_most) {
  Pattern chosen;
  std::vector<std::string> faults;
  check_every_few(all, at_most, chosen, 0, faults);
  return faults;
}

TEST(HalfLaunch, EverySubsetOfSlurmsVariables) {
  EXPECT_THAT(faults_of_every_few(of_slurm, of_slurm.size()), ::testing::IsEmpty());
}

TEST(HalfLaunch, EveryFewVariablesOfAllLaunchers) {
  Pattern all = of_slurm;
  all.insert(all.end(), of_others.begin(), of_others.end());
  EXPECT_THAT(faults_of_every_few(all, 3), ::testing::IsEmpty());
}

/// mpirun, torchrun and `capstan run` inside of a task, a script or a shell of Slurm's.
TEST(HalfLaunch, AnInnerLauncherCountsWithinEverySubsetOfSlurms) {
  const std::vector<Pattern> inner{
      {{"CAPSTAN_RANK", "@"},
       {"CAPSTAN_SIZE", "2"},
       {"CAPSTAN_STORE", "@capstan-run-1"},
       {"CAPSTAN_SECRET", "0123456789abcdef"}},
      {{"OMPI_COMM_WORLD_RANK", "@"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
      {{"PMI_RANK", "@"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "@"}, {"MPI_LOCALNRANKS", "2"}},
      {{"RANK", "@"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}}};
  for (const char* number : {"0", "3"})
    for (const char* tasks : {"1", "4", "9"})
      for (unsigned subset = 0; subset < 1u << of_slurm.size(); ++subset)
        for (const Pattern& launcher : inner) {
          Pattern all = launcher;
          for (std::size_t i = 0; i < of_slurm.size(); ++i) {
            auto [name, value] = of_slurm[i];
            if ((subset >> i & 1) != 0)
              all.emplace_back(name, value == "@" ? number : value == "2" ? tasks : value);
          }
          ASSERT_EQ(found(of_rank(all, 0)), "0 of 2") << shown(all);
          ASSERT_EQ(found(of_rank(all, 1)), "1 of 2") << shown(all);
        }
}

TEST(HalfLaunch, ShellsAndScriptsOfAnAllocationAreWorldsOfOne) {
  const Variables shell{{"SLURM_JOB_ID", "7"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_NPROCS", "4"},
                        {"SLURM_TASKS_PER_NODE", "4"}};
  const Variables script = with(shell, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}});
  const Variables interactive =
      with(script, {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  for (const Variables& alone : {shell, script, interactive}) {
    EXPECT_EQ(found(alone), "0 of 1");
    EXPECT_EQ(found(with(alone, {{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}})), "1 of 3");
    EXPECT_THAT(found(with(alone, {{"RANK", "0"}})),
                AllOf(HasSubstr("RANK=0"), HasSubstr("WORLD_SIZE is not set")));
  }
}

TEST(HalfLaunch, PmiOfAnotherPlaceThanTheTaskIsAContradiction) {
  const Variables task{
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}};
  const auto with_pmi = [](const Variables& slurms, const char* rank, const char* size) {
    return found(with(slurms, {{"PMI_RANK", rank}, {"PMI_SIZE", size}}));
  };
  EXPECT_EQ(with_pmi(task, "1", "4"), "1 of 4");
  for (const auto& [rank, size] :
       std::vector<std::pair<const char*, const char*>>{{"0", "4"}, {"1", "2"}, {"0", "1"}})
    EXPECT_THAT(with_pmi(task, rank, size),
                AllOf(HasSubstr("SLURM_PROCID=1"), HasSubstr("SLURM_NTASKS=4"),
                      HasSubstr(std::string{"PMI_RANK="} + rank), HasSubstr("unset")));
  const Variables only = with(task, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}});
  EXPECT_EQ(with_pmi(only, "1", "2"), "1 of 2") << "the step's only task has started others";
}

}  // namespace
}  // namespace capstan
