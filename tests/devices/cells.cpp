// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/cells.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "perf/measure/data.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

constexpr std::byte spoilt{0xa5};

/// Whether everything but the output is unchanged.
bool untouched(const std::vector<std::byte>& before, const std::vector<std::byte>& after,
               std::size_t output, std::size_t output_size) {
  for (std::size_t i = 0; i < before.size(); ++i)
    if ((i < output || i >= output + output_size) && before[i] != after[i]) return false;
  return true;
}

}  // namespace

std::string trouble_with(Communicator& world, const perf::Cell& cell, Where input, Where output,
                         bool background) {
  const std::string trouble =
      trouble_with(cell, world.rank(), world.size(), input, output, [&](const Request& request) {
        background ? world.start(request).wait() : world.run(request);
      });
  return trouble.empty() || !background ? trouble : trouble + ", in the background";
}

std::string trouble_with(const perf::Cell& cell, int rank, int ranks, Where input, Where output,
                         const std::function<void(const Request&)>& run) {
  const Contract contract = cell.contract(ranks);
  const perf::TestData data{cell.type, cell.op, contract, ranks};
  const std::size_t size = bytes_of(contract.extent(), size_of(cell.type)).value() + 64;
  Memory from{input, size}, to{output, size};
  const Request request = perf::request_of(cell, rank, ranks, from.data(), to.data());

  // Filled in host memory, at the same offsets.
  std::vector<std::byte> given(size, spoilt), expected(size, spoilt);
  auto& source = cell.in_place ? expected : given;
  const auto* const base = cell.in_place ? to.data() : from.data();
  const auto* const begin = static_cast<const std::byte*>(request.input);
  data.fill(source.data() + (begin - base), rank);
  from.write(given);
  to.write(expected);

  run(request);

  const auto got = to.read();
  const auto at = static_cast<std::size_t>(static_cast<std::byte*>(request.output) - to.data());
  const std::size_t length = bytes_of(contract.lengths(rank).output, size_of(cell.type)).value();
  const auto where = fmt::format("{} of {}, {}, rank {} of {}, {} bytes, input {}, output {}{}",
                                 name_of(cell.collective), name_of(cell.type), name_of(cell.op),
                                 rank, ranks, size, static_cast<int>(input),
                                 static_cast<int>(output), cell.in_place ? ", in place" : "");
  if (const auto wrong = data.count_wrong(got.data() + at, rank); wrong > 0)
    return fmt::format("{}: {} elements are wrong", where, wrong);
  if (!cell.in_place && from.read() != given) return where + ": the input was changed";
  if (!untouched(expected, got, at, length)) return where + ": more than the output was changed";
  return "";
}

std::string trouble_with_collectives(Communicator& world) {
  struct Places {
    Where input, output;
  };
  constexpr Places places[] = {{Where::device, Where::device}, {Where::device, Where::host},
                               {Where::host, Where::device},   {Where::pool, Where::device},
                               {Where::managed, Where::pool},  {Where::host, Where::host}};
  static const std::vector<std::size_t> sizes{4, 100, 5000, 300'000}, few_sizes{4, 5000};
  for (const Collective collective : all_collectives())
    for (const std::size_t bytes : sanitized ? few_sizes : sizes)
      for (std::size_t i = 0; i < std::size(places); ++i)
        for (const bool in_place : {false, true}) {
          // Ranks have their buffers in different kinds of memory.
          const auto own = static_cast<std::size_t>(world.rank());
          const Places at = bytes == 5000 ? places[(i + own) % std::size(places)] : places[i];
          perf::Cell cell =
              perf::cell_of(collective, DataType::i32, ReduceOp::sum, Bytes{bytes}, world.size());
          if (has_root(collective)) cell.shape.root = static_cast<int>(i) % world.size();
          cell.in_place = in_place && collective != Collective::all_to_all_v;
          auto trouble = trouble_with(world, cell, at.input, at.output, i % 2 == 1);
          if (!trouble.empty()) return trouble;
        }
  return "";
}

}  // namespace capstan
