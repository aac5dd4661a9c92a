// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "capstan/deadline.hpp"

namespace capstan::pmix {

// The part of PMIx that Capstan uses. Through PMIx, launchers (Open MPI's mpirun, srun --mpi=pmix)
// let the ranks of a job exchange values. Only processes of the job's user can read them. The first
// call connects to the launcher, and the end of the process disconnects. All functions may be
// called from any thread.

/// Why PMIx cannot be used here, with the remedy; empty if it can. The functions below throw it as a
/// BootstrapError. PMIx's library is loaded when it is first needed: the one that the process has
/// already, such as MPI's own, or else the system's.
std::string obstacle();

/// Leaves `value` under `key` (up to 511 bytes) for the other ranks; a key serves once. Throws
/// BootstrapError.
void put(const std::string& key, const std::string& value);

/// Waits for the value that rank `rank` of the job puts under `key`. Throws TimedOut,
/// BootstrapError.
std::string get(int rank, const std::string& key, Deadline deadline);

/// Waits until all ranks of the job have called it, or until `deadline`. The values of a rank are
/// gone when the rank ends, so each rank calls this before.
void meet(Deadline deadline);

}  // namespace capstan::pmix
