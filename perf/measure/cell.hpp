// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/communicator.hpp"

namespace capstan::perf {

/// One measurement: a collective with its element type, operation and shape. A line of the table.
struct Cell {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  Shape shape{};
  bool in_place = false;

  Contract contract(int ranks) const { return {collective, shape, ranks}; }
};

/// Whether input and output may share memory: not in an all_to_all_v, and a barrier has none.
bool may_be_in_place(Collective collective);

/// The cell of a collective whose largest buffer holds at most `size` bytes. Collectives with
/// counts per rank get blocks of different length.
Cell cell_of(Collective collective, DataType type, ReduceOp op, Bytes size, int ranks);
/// The cell of a sum of floats as most programs call it: a broadcast in place, as MPI_Bcast is, and
/// all else with two buffers.
Cell usual_cell_of(Collective collective, Bytes size, int ranks);

/// The same with an element at least in each block: the smallest call that says anything.
Cell compared_cell_of(Collective collective, Bytes size, int ranks);

/// The call of one rank with buffers at `input` and `output`. In place, `output` holds both.
Request request_of(const Cell& cell, int rank, int ranks, std::byte* input, std::byte* output);

/// Makes one call with test data in newly allocated buffers. Returns how many elements of this
/// rank's output are wrong. All ranks call it.
std::uint64_t wrong_values(Communicator& world, const Cell& cell);
/// The same with the caller's buffers; each holds cell.contract().extent() elements.
std::uint64_t wrong_values(Communicator& world, const Cell& cell, std::byte* input,
                           std::byte* output);

}  // namespace capstan::perf
