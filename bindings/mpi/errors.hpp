// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "bindings/mpi/mpi.hpp"

namespace capstan::mpi {

/// The code of an error, by which MPI_Error_string has its text.
int code_of_error(const std::exception_ptr& error) noexcept;

/// Tells the communicator's error handler, and returns the code, for the call to return.
int report_error(MPI_Comm comm, const std::exception_ptr& error) noexcept;

/// MPI_Error_string, which also knows the texts of Capstan's errors.
int error_string(int code, char* text, int* length);

}  // namespace capstan::mpi
