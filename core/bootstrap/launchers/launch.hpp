// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/bootstrap/launchers/pmi_access.hpp"
#include "core/platform/net/endpoint.hpp"
#include "core/platform/net/secret.hpp"

namespace capstan {

/// Looks a variable up; empty if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// The environment of this process. Hydra's mpirun -pmi-port leaves PMI_RANK and PMI_SIZE out. They
/// are then asked of Hydra: throws BootstrapError if it does not answer.
Environment process_environment();

/// A store that the launcher or the user has decided on.
struct StoreLocation {
  SocketEndpoint endpoint;  ///< abstract only where the launcher serves it
  Secret secret;
  /// The launcher serves it (capstan run). Otherwise rank 0 does.
  bool hosted_by_launcher;
};

/// The place of this process among the processes that were started together, and how these can find
/// each other.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = -1;  ///< among the ranks of this host; -1 if unknown
  int local_size = -1;  ///< how many ranks this host has; -1 if unknown
  std::string job;      ///< tells this job apart from others; the same on all its ranks of a host
  std::string launcher;
  std::optional<StoreLocation> store = {};
  bool offers_pmix = false;             ///< the launcher serves PMIx to this rank
  std::optional<pmi::Access> pmi = {};  ///< where the launcher serves PMI to this rank, if it does
};

/// Reads what the launcher left in the environment. The first of these that is there counts:
///
///   capstan run    CAPSTAN_RANK, CAPSTAN_SIZE, CAPSTAN_LOCAL_RANK, CAPSTAN_LOCAL_SIZE
///   torchrun       as below, if TORCHELASTIC_RUN_ID shows that torchrun itself started this
///                  process: then it is the innermost launcher, whatever started torchrun
///   Open MPI       OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE; job: PMIX_NAMESPACE
///   MPICH          PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS; job: the store if one is
///                  named, else the process that started the ranks of this host. (srun --mpi=pmi2
///                  sets PMI_RANK, too, and counts as Slurm.)
///   torchrun       RANK with WORLD_SIZE or MASTER_ADDR, by hand or by another program;
///                  LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT
///   Slurm          SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, only in a step that srun started
///                  (SLURM_STEP_ID is set), not in a shell or script of an allocation. mpirun and
///                  torchrun under Slurm inherit these variables from the step that started them,
///                  so they go before.
///   (none)         a world of one rank
///
/// A launch of one rank does not count where torch's variables show several: a program inside of
/// mpirun -n 1, srun -n 1 or capstan run -n 1 has started them. Nor does it where it has started
/// srun, as its process shows, which had other variables of Slurm's or none. Where another MPI
/// launcher's show several, that is an error, and so are traces of launchers that are not in this
/// list, some of the variables of one without the others, and two launchers that show several ranks
/// and another place among them each.
///
/// CAPSTAN_STORE=host:port or [address]:port with CAPSTAN_SECRET (16 characters or more) names the
/// store under any of them; capstan run serves it itself, under the others rank 0 does. torchrun
/// needs neither: rank 0 serves at MASTER_ADDR:MASTER_PORT, or at the port after it if torchrun's
/// agent occupies that one (TORCHELASTIC_USE_AGENT_STORE). Without CAPSTAN_SECRET, ranks that are
/// all on one host meet at a local socket instead. On several hosts, addresses other than loopback
/// are then refused unless CAPSTAN_TRUSTED_NETWORK=1: the secret is made from the job's name, which
/// protects from accidents and not from attackers who reach the port.
///
/// PMIX_NAMESPACE and PMIX_RANK show that Open MPI or Slurm offers PMIx, PMI_RANK with PMI_FD (or
/// PMI_PORT and PMI_ID) that MPICH or Slurm offers PMI.
///
/// Throws InvalidArgument that names the variable, its value and the remedy if one is missing,
/// malformed or contradicts another.
Launch detect_launch(const Environment& environment);

}  // namespace capstan
