// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Between the stub, which needs the C library alone, and the implementations, one for each
/// mpi.h. Arrays have an entry for each function of names.hpp, in its order.

/// The stub hands over the library of MPI, as a handle of dlopen(), and its own functions
/// (PMPI_X), null where it has none. Lasts as long as the process.
struct capstan_mpi_library {
  void* handle;
  void* const* own;
};

/// Writes the functions that take the place of MPI's; null: MPI's own.
using capstan_mpi_serve_function = void (*)(const capstan_mpi_library* library, void** served);
#define CAPSTAN_MPI_SERVE "capstan_mpi_serve"
