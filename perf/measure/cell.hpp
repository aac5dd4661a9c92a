#pragma once

#include "capstan/communicator.hpp"

namespace capstan::perf {

/// One line of the table.
struct Cell {
  Collective collective = Collective::all_reduce;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  Shape shape{};
  bool in_place = false;

  Contract contract(int ranks) const { return {collective, shape, ranks}; }
};

/// The cell of a collective whose largest buffer holds at most `size` bytes. Forms with counts get
/// unlike ones.
Cell cell_of(Collective collective, DataType type, ReduceOp op, Bytes size, int ranks);

/// The call of one rank with its input and its output (or, in place, what holds both) at these
/// places.
Request request_of(const Cell& cell, int rank, int ranks, std::byte* input, std::byte* output);

/// Makes one call with test data in memory of its own and returns how many elements of this rank's
/// output are wrong.
std::uint64_t wrong_values(Communicator& world, const Cell& cell);
/// The same with the buffers of request_of(): each holds cell.contract().extent() elements.
std::uint64_t wrong_values(Communicator& world, const Cell& cell, std::byte* input,
                           std::byte* output);

}  // namespace capstan::perf
