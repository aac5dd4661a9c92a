// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "capstan/deadline.hpp"
#include "core/bootstrap/launchers/pmi_access.hpp"

namespace capstan::pmi {

// PMI, the interface through which Hydra (MPICH's mpirun) and srun --mpi=pmi2 let the ranks of a
// job exchange values. Both speak version 1 of its wire protocol, srun beside version 2. A process
// has one conversation with its launcher: the first call begins it, and the end of the process
// finalizes it. Nothing is encrypted; values travel over the launcher's own connections. All
// functions may be called from any thread.
//
// An MPI library of the launcher's kind speaks PMI, too. Over Hydra's descriptor Capstan and MPI
// can both speak it, in any order, but one after the other: start up while no other thread is in
// MPI, and before MPI_Finalize, which ends the conversation. srun ends a job in which a
// conversation begins twice, and Hydra's port confuses two conversations of a rank: Capstan leaves
// PMI to MPI there.

/// The reason why Capstan does not use the PMI that the launcher offers; empty if Capstan uses it.
std::string obstacle(const Access& access);

/// Rank and size of a process that knows only the port.
std::pair<int, int> place(const Access& access, Deadline deadline);

/// The longest text of leave(), in bytes.
inline constexpr std::size_t longest_text = 500;

/// Rank 0 leaves `text` under `key`, and the other ranks get it once all ranks have called. All
/// ranks of the job make the same number of calls. Throws BootstrapError, TimedOut.
void leave(const Access& access, const std::string& key, std::string_view text, Deadline deadline);
std::string get(const Access& access, const std::string& key, Deadline deadline);

}  // namespace capstan::pmi
