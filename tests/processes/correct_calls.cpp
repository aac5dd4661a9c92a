// SPDX-License-Identifier: Apache-2.0
#include "tests/processes/correct_calls.hpp"

#include <fmt/format.h>

#include <span>

#include "perf/measure/cell.hpp"

namespace capstan {
namespace {

constexpr std::array few_types = {DataType::i8, DataType::bf16, DataType::f64, DataType::c128};
constexpr std::array few_ops = {ReduceOp::sum, ReduceOp::max};

const auto tried_types = sanitized ? std::span<const DataType>{few_types} : all_data_types();

bool defined(Collective collective, DataType type, ReduceOp op) {
  if (reduces(collective) && !supports(type, op)) return false;
  if (!reduces(collective)) return op == ReduceOp::sum;
  const bool prefix = collective == Collective::scan || collective == Collective::exscan;
  return !prefix || op != ReduceOp::average;
}

/// Cutting a call into blocks has to do with the size of elements, not with what is done to them.
bool worth_trying(DataType type, ReduceOp op, std::size_t count) {
  return count < counts.back() || op == ReduceOp::sum || type == DataType::i8;
}

/// Every count of one collective.
bool all_correct(Communicator& world, Collective collective, std::span<const DataType> types,
                 std::span<const ReduceOp> ops) {
  for (const DataType type : types)
    for (const ReduceOp op : ops)
      for (const std::size_t count : counts)
        if (defined(collective, type, op) && worth_trying(type, op, count) &&
            !correct(world, collective, type, op, count, static_cast<int>(count))) {
          fmt::print("wrong: rank {} {} {} {} {}\n", world.rank(), name_of(collective),
                     name_of(type), name_of(op), count);
          return false;
        }
  return true;
}

int everything(Communicator& world, std::string_view name, std::span<const DataType> types,
               std::span<const ReduceOp> ops) {
  for (const Collective collective : all_collectives())
    if ((name.empty() || name == name_of(collective)) &&
        !all_correct(world, collective, types, ops))
      return 1;
  return 0;
}

}  // namespace

bool correct(Communicator& world, Collective collective, DataType type, ReduceOp op,
             std::size_t count, int root) {
  perf::Cell cell =
      perf::cell_of(collective, type, op, bytes_of(Elements{count}, size_of(type)), world.size());
  cell.shape.root = has_root(collective) ? root % world.size() : 0;
  const bool outside = perf::wrong_values(world, cell) == 0;
  cell.in_place = collective != Collective::all_to_all_v;
  return perf::wrong_values(world, cell) == 0 && outside;
}

int everything(Communicator& world, std::string_view name) {
  return everything(world, name, tried_types, all_reduce_ops());
}

int everything_in_few_types(Communicator& world, std::string_view name) {
  return everything(world, name, few_types, few_ops);
}

}  // namespace capstan
