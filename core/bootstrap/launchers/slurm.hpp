// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/bootstrap/launchers/job_identity.hpp"
#include "core/bootstrap/launchers/launch.hpp"

namespace capstan::slurm {

/// Whether srun has started this process as a task, or a launcher that did: not so the shell of
/// salloc or the script of sbatch.
bool is_task(const Environment& environment);

/// Whether this is such a shell or script, or was started by one: Slurm's numbers are then those of
/// the tasks that it may start.
bool is_script(const Environment& environment);

/// The variable with the number of tasks of the step, which may be smaller than the job that
/// SLURM_NTASKS can describe.
const char* size_name(const Environment& environment);

/// Whether PMI_RANK and PMI_SIZE are those of a task of srun's.
bool serves_pmi(const Environment& environment);

/// Throws InvalidArgument that names the variables of both where they name another place than that
/// of a task among several: nothing tells which of the two launchers has started the other.
void refuse_other_pmi(const Environment& environment);

/// Which has started the other, srun this task or another launcher this process.
Inner inner_beside_launcher(const Environment& environment);

}  // namespace capstan::slurm
