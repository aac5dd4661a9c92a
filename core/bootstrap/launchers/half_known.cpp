// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/launchers/half_known.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "capstan/error.hpp"
#include "core/bootstrap/launchers/slurm.hpp"

namespace capstan {
namespace {

/// Variables of launchers whose jobs Capstan does not join by itself, or that need others beside
/// them. A rank's number without a size says nothing about being alone.
struct Trace {
  const char* launcher;
  const char* rank;
  const char* size;  ///< null: the launcher passes none
  const char* beside =
      nullptr;                 ///< what the launcher sets, too, and this trace shows to be missing
  bool of_allocation = false;  ///< Slurm also sets these where it has started no task
};
constexpr std::array traces{
    Trace{"a launcher that serves PMIx (prterun, jsrun, palsrun)", "PMIX_RANK", nullptr},
    Trace{"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    Trace{"MVAPICH", "MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"},
    Trace{"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    Trace{"Cray PALS", "PALS_RANKID", nullptr},
    Trace{"Cray ALPS", "ALPS_APP_PE", nullptr},
    Trace{"IBM's jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    Trace{"HPE MPT", "MPT_MPI_RANK", "MPT_MPI_SIZE"},
    Trace{"MVAPICH", "MPIRUN_RANK", "MPIRUN_NPROCS"},
    Trace{"MPICH", "PMI_ID", nullptr},
    Trace{"JAX", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"},
    Trace{"BytePS", "DMLC_WORKER_ID", "DMLC_NUM_WORKER"},
    Trace{"Horovod", "HOROVOD_RANK", "HOROVOD_SIZE"},
    Trace{"Horovod", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"},
    Trace{"Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Trace{"Open MPI", "OMPI_COMM_WORLD_NODE_RANK", nullptr},
    Trace{"MPICH", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    Trace{"capstan run", "CAPSTAN_LOCAL_RANK", "CAPSTAN_LOCAL_SIZE"},
    Trace{"torchrun", "RANK", "WORLD_SIZE"},
    Trace{"torchrun", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Trace{"torchrun", "GROUP_RANK", "GROUP_WORLD_SIZE"},
    Trace{"torchrun", "ROLE_RANK", "ROLE_WORLD_SIZE"},
    Trace{"Slurm", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", true},
    Trace{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", true},
    Trace{"Slurm", "SLURM_PROCID", "SLURM_NPROCS", "SLURM_STEP_ID", true},
    Trace{"Slurm", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_PROCID", true},
    Trace{"Cray PALS", "PALS_LOCAL_RANKID", nullptr}};

/// Empty if the variable is missing or holds anything but a whole number, between blanks or not.
std::optional<int> number(const Environment& environment, const char* name) {
  const auto value = name ? environment(name) : std::nullopt;
  if (!value) return std::nullopt;
  constexpr std::string_view blanks = " \t\r\n";
  std::string_view text = *value;
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  text = text.substr(0, text.find_last_not_of(blanks) + 1);
  if (text.starts_with('+')) text.remove_prefix(1);
  int result = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, result);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return result;
}

/// The reason why this process cannot be one of the several, as a part of a sentence.
std::string obstacle(const Trace& trace, const Environment& environment) {
  if (!trace.size) return "passes no number of ranks";
  for (const char* const name : {trace.rank, trace.beside, trace.size})
    if (name && !environment(name)) return fmt::format("{} is not set", name);
  return "the variables that tell which rank of how many, and where all meet, are not complete";
}

[[noreturn]] void refuse(const Trace& trace, const char* variable, int value,
                         const Environment& environment) {
  throw InvalidArgument(fmt::format(
      "{}={} shows that {} started this process as one of several, but {}: to be one of them, set "
      "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or start all by capstan run, mpirun, srun or "
      "torchrun; to be a world of one rank, unset {}",
      variable, value, trace.launcher, obstacle(trace, environment), variable));
}

/// Whether the trace is of a launch that is known. Slurm's inside of mpirun is of the step that
/// started mpirun, and PMIx serves the ranks of several launchers.
bool is_explained(const Trace& trace, std::span<const Launch> launches) {
  const std::string_view launcher = trace.launcher, variable = trace.rank;
  if (launches.empty() || launcher == "torchrun") return false;
  if (launcher == "Slurm") return true;
  return std::ranges::any_of(launches, [&](const Launch& launch) {
    return launch.launcher == launcher || (variable == "PMIX_RANK" && launch.size > 1);
  });
}

}  // namespace

void refuse_half_known(const Environment& environment, std::span<const Launch> launches) {
  const bool script = slurm::is_script(environment);
  // First what shows several ranks, then a first rank of an unknown number.
  for (const bool number_unknown : {false, true}) {
    if (number_unknown && !launches.empty()) return;
    for (const Trace& trace : traces) {
      if (is_explained(trace, launches) || (script && trace.of_allocation)) continue;
      const auto rank = number(environment, trace.rank), size = number(environment, trace.size);
      if (size && *size > 1) refuse(trace, trace.size, *size, environment);
      if (rank && *rank > 0) refuse(trace, trace.rank, *rank, environment);
      if (number_unknown && rank == 0 && !size) refuse(trace, trace.rank, *rank, environment);
    }
  }
}

}  // namespace capstan
