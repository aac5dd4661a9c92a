// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/slurm.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/launch_names.hpp"

namespace capstan::slurm {
namespace {

/// Whether PMI's variables can be those of this task. Hydra sets more than srun does.
bool may_serve_pmi(const Environment& environment) {
  return is_task(environment) && environment("SLURM_PROCID") &&
         !environment(mpich_names.local_rank);
}

}  // namespace

bool is_task(const Environment& environment) {
  // Shells, scripts and daemons of an allocation are steps of numbers from here.
  constexpr std::string_view least_of_others = "4294967280";
  const auto step = environment("SLURM_STEP_ID");
  return step && (step->size() < least_of_others.size() || *step < least_of_others);
}

bool is_script(const Environment& environment) {
  const bool job = environment("SLURM_JOB_ID") || environment("SLURM_JOBID");
  if (!job || is_task(environment)) return false;
  const auto rank = environment("SLURM_PROCID"), local_rank = environment("SLURM_LOCALID");
  return rank == local_rank && rank.value_or("0") == "0";
}

const char* size_name(const Environment& environment) {
  return environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

bool serves_pmi(const Environment& environment) {
  if (!may_serve_pmi(environment)) return false;
  const auto pmi_rank = environment(mpich_names.rank), pmi_size = environment(mpich_names.size);
  const auto size = environment(size_name(environment));
  return (!pmi_rank || pmi_rank == environment("SLURM_PROCID")) &&
         (!pmi_size || !size || pmi_size == size);
}

void refuse_other_pmi(const Environment& environment) {
  const char* const size = size_name(environment);
  if (!may_serve_pmi(environment) || serves_pmi(environment) || environment(size) == "1") return;
  const auto shown = [&](const char* name) {
    const auto value = environment(name);
    return value ? fmt::format("{}={}", name, *value) : fmt::format("{}, which is not set,", name);
  };
  throw InvalidArgument(fmt::format(
      "{} and {} do not go with {} and {}: nothing tells whether srun or MPICH has started this "
      "process; unset the variables of the one that does not count",
      shown("SLURM_PROCID"), shown(size), shown(mpich_names.rank), shown(mpich_names.size)));
}

Inner inner_beside_launcher(const Environment& environment) {
  std::vector<std::pair<std::string, std::string>> own;
  for (const char* const name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID"})
    if (const auto value = environment(name)) own.emplace_back(name, *value);
  return inner_launcher(own);
}

}  // namespace capstan::slurm
