// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/cell.hpp"

#include "perf/measure/data.hpp"

namespace capstan::perf {

bool may_be_in_place(Collective collective) {
  return collective != Collective::all_to_all_v && collective != Collective::barrier;
}

Cell cell_of(Collective collective, DataType type, ReduceOp op, Bytes size, int ranks) {
  Cell cell{.collective = collective, .type = type, .op = op};
  const std::uint64_t elements = size.value() / size_of(type).value();
  const auto p = static_cast<std::uint64_t>(ranks);
  const bool exchange = collective == Collective::all_to_all_v;
  if (has_counts(collective)) {
    // Blocks alternate between one and a half and half of the mean length. In an exchange they do
    // so both by sender and by receiver.
    const std::uint64_t block = elements / p;
    for (std::uint64_t i = 0; i < (exchange ? p * p : p); ++i) {
      const std::uint64_t place = (i + i / p) % p;
      cell.shape.counts.emplace_back(place % 2 == 1  ? block - block / 2
                                     : place + 1 < p ? block + block / 2
                                                     : block);
    }
    return cell;
  }
  cell.shape.count = Elements{1};
  const bool has_blocks = ranks > 1 && cell.contract(ranks).extent() > Elements{1};
  cell.shape.count = Elements{has_blocks ? elements / p : elements};
  if (collective == Collective::barrier) cell.shape.count = Elements{0};
  return cell;
}

Cell usual_cell_of(Collective collective, Bytes size, int ranks) {
  Cell cell = cell_of(collective, DataType::f32, ReduceOp::sum, size, ranks);
  cell.in_place = collective == Collective::broadcast;
  return cell;
}

Cell compared_cell_of(Collective collective, Bytes size, int ranks) {
  const Cell cell = usual_cell_of(collective, size, ranks);
  if (collective == Collective::barrier || cell.contract(ranks).extent() > Elements{0}) return cell;
  const Bytes least = size_of(cell.type) * static_cast<std::uint64_t>(ranks);
  return usual_cell_of(collective, has_counts(collective) ? least : size_of(cell.type), ranks);
}

Request request_of(const Cell& cell, int rank, int ranks, std::byte* input, std::byte* output) {
  const BufferLengths lengths = cell.contract(ranks).lengths(rank);
  const auto own = cell.contract(ranks).in_place(rank);
  const auto at = [&](Elements offset) { return bytes_of(offset, size_of(cell.type)).value(); };
  Request request{.collective = cell.collective,
                  .type = cell.type,
                  .input = cell.in_place ? output + at(own.input) : input,
                  .input_count = lengths.input,
                  .output = output + (cell.in_place ? at(own.output) : 0),
                  .output_count = lengths.output,
                  .reducer = cell.op,
                  .root = cell.shape.root,
                  .counts = cell.shape.counts};
  if (cell.collective == Collective::all_to_all_v) {
    const auto p = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
    request.counts.assign(cell.shape.counts.begin() + static_cast<std::ptrdiff_t>(r * p),
                          cell.shape.counts.begin() + static_cast<std::ptrdiff_t>((r + 1) * p));
    for (std::size_t i = 0; i < p; ++i)
      request.receive_counts.push_back(cell.shape.counts[i * p + r]);
  }
  return request;
}

std::uint64_t wrong_values(Communicator& world, const Cell& cell) {
  const Elements extent = cell.contract(world.size()).extent();
  const std::size_t bytes = bytes_of(extent, size_of(cell.type)).value() + 64;
  std::vector<std::byte> input(bytes), output(bytes);
  return wrong_values(world, cell, input.data(), output.data());
}

std::uint64_t wrong_values(Communicator& world, const Cell& cell, std::byte* input,
                           std::byte* output) {
  const Contract contract = cell.contract(world.size());
  const TestData data{cell.type, cell.op, contract, world.size()};
  const Request request = request_of(cell, world.rank(), world.size(), input, output);
  data.spoil(output, contract.extent());
  data.fill(const_cast<void*>(request.input), world.rank());
  world.run(request);
  return data.count_wrong(request.output, world.rank());
}

}  // namespace capstan::perf
