// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/mpi/types.hpp"
#include "capstan/reducer.hpp"

namespace capstan::mpi {

/// How a reduction runs: by Capstan's own kernels where it has type and operation, otherwise MPI
/// itself combines operands that Capstan moves as so many bytes.
struct Reduction {
  DataType type = DataType::u8;
  Reducer reducer{};
  Layout operand{};  ///< of the program's buffers: direct where the operands are sent as they lie
};

/// Null: MPI alone runs this operation, or knows what is wrong with it. The same on all ranks, as
/// these pass the same operation and type. Valid until the next call of this thread.
const Reduction* reduction_of(MPI_Op op, const Layout& layout);

/// Whether MPI defines the operation.
bool is_predefined(MPI_Op op);

}  // namespace capstan::mpi
