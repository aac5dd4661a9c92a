// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace capstan::cli {

/// The MPI of a program.
struct FoundMpi {
  std::string name;                ///< "Open MPI"
  std::filesystem::path library;   ///< libmpi, as the loader finds it
  std::filesystem::path launcher;  ///< the mpirun that belongs to it
  /// By which the launcher starts any number of ranks here.
  std::vector<std::string> options;
};

/// Finds the MPI that a program links, a path or a name in PATH, and its launcher. Throws
/// InvalidArgument if the program links none that Capstan serves, or if the launcher is not found.
FoundMpi find_mpi(const std::string& program);

}  // namespace capstan::cli
