// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "bindings/mpi/mpi.hpp"
#include "capstan/communicator.hpp"

namespace capstan::mpi {

/// Runs a part on each rank of a communicator. True, on all of them, if none has thrown; a rank
/// that has says so on standard error.
bool agreed(MPI_Comm comm, const std::function<void()>& part);

/// Joins the world of Capstan that has the ranks of MPI_COMM_WORLD: MPI passes the id round.
/// Nothing on any rank if one cannot join.
std::optional<Communicator> join_world();

/// Sends the first rank's bytes to all.
void share(void* bytes, int length);

}  // namespace capstan::mpi
