// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/mpi/transfer.hpp"
#include "capstan/communicator.hpp"

namespace capstan::mpi {

/// Starts a transfer. A call without any message has ended at once.
Work start(Communicator& group, const Transfer& transfer);

/// Runs a transfer to its end, while MPI moves on if it takes long. Throws.
void run(Communicator& group, const Transfer& transfer);

/// Waits for the end of a work, with a result or an error, while MPI moves on.
void wait_for_end(const Work& work) noexcept;

}  // namespace capstan::mpi
