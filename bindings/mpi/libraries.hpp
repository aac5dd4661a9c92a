// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace capstan::mpi {

/// A library of MPI whose binary interface the door knows.
struct Library {
  const char* soname;
  const char* mpi;             ///< by which its launcher is known
  const char* implementation;  ///< lies beside the stub
};

inline constexpr Library libraries[] = {
    {"libmpi.so.40", "Open MPI", "libcapstan-mpi-openmpi.so"},
    {"libmpich.so.12", "MPICH", "libcapstan-mpi-mpich.so"},
    {"libmpi.so.12", "MPICH", "libcapstan-mpi-mpich.so"},
    {"libmpi_abi.so.1", "MPICH", "libcapstan-mpi-abi.so"},
    {"libmpi_abi.so.0", "MPICH", "libcapstan-mpi-abi.so"},
};

}  // namespace capstan::mpi
