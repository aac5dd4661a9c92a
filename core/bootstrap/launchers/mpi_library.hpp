// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace capstan {

/// An MPI library in this process: it may speak to the launcher over the connection that Capstan
/// would use, too.
enum class MpiLibrary {
  absent,
  loaded,  ///< by the program or one of its libraries; MPI_Init may still be called
  initialised,
  finalised,
};

/// May be called from any thread, at any time.
MpiLibrary mpi_library();

}  // namespace capstan
