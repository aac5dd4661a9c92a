// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <future>

#include "bindings/mpi/mpi.hpp"
#include "capstan/work.hpp"

namespace capstan::mpi {

/// Two libraries wait for peers here, and each moves on only when it is called. So whoever waits
/// for Capstan calls MPI now and then, by moves_mpi(); whoever waits in MPI for a long time has
/// Capstan's operations moved on by a hook of MPI or by Capstan's progress thread.

/// Makes what moves_mpi() needs; after MPI_Init, and before MPI_Finalize.
void start_progress();
void stop_progress();

/// Lets MPI move its messages on.
void move_mpi();

/// Returns when the work has ended, and lets MPI move on meanwhile.
void wait_beside_mpi(const Work& work);

/// Runs a function that waits for other ranks on a thread of its own, and lets MPI move on.
template <class Function>
auto run_beside_mpi(Function function) {
  auto result = std::async(std::launch::async, std::move(function));
  while (result.wait_for(std::chrono::microseconds{100}) != std::future_status::ready) move_mpi();
  return result.get();
}

/// Whether MPI calls Capstan wherever it waits; otherwise operations in the background need
/// Capstan's progress thread.
bool mpi_moves_capstan();

/// A communicator of this process alone, for the door's own requests.
MPI_Comm own_communicator();

}  // namespace capstan::mpi
