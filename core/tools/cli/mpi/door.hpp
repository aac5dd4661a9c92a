// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

/// Limits of what libcapstan-mpi.so serves in a program of MPI, and its report.
struct DoorOptions {
  bool report = false, off = false;
  bool audit = false;  ///< also what the program looks up by dlsym()
  std::string only;    ///< the collectives that are served, separated by commas; empty: all
};

/// Becomes a command, which starts a program of MPI, with libcapstan-mpi.so in LD_PRELOAD. Throws
/// InvalidArgument if that is not here or the command cannot be started.
[[noreturn]] void become_with_door(const DoorOptions& options, std::vector<std::string> command);

/// Becomes the launcher of the MPI that a program links, which starts so many ranks of it; says
/// before which MPI that is and what Capstan serves. Throws InvalidArgument: see find_mpi().
[[noreturn]] void become_mpi_job(int ranks, const std::vector<std::string>& program);

}  // namespace capstan::cli
