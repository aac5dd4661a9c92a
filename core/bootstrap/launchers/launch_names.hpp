// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace capstan {

/// The names under which a launcher passes the four numbers.
struct LaunchNames {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

inline constexpr LaunchNames capstan_names{"capstan run", "CAPSTAN_RANK", "CAPSTAN_SIZE",
                                           "CAPSTAN_LOCAL_RANK", "CAPSTAN_LOCAL_SIZE"};
inline constexpr LaunchNames open_mpi_names{"Open MPI", "OMPI_COMM_WORLD_RANK",
                                            "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
inline constexpr LaunchNames mpich_names{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                         "MPI_LOCALNRANKS"};
inline constexpr LaunchNames torchrun_names{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                            "LOCAL_WORLD_SIZE"};

inline constexpr LaunchNames mvapich_names{"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
                                           "MV2_COMM_WORLD_LOCAL_RANK",
                                           "MV2_COMM_WORLD_LOCAL_SIZE"};

/// The launchers whose variables are those of the ranks that they have started themselves, in the
/// order in which they count.
inline constexpr const LaunchNames* placing[] = {&capstan_names, &open_mpi_names, &mpich_names,
                                                 &torchrun_names, &mvapich_names};

}  // namespace capstan
