// SPDX-License-Identifier: Apache-2.0
#include "capstan/types.hpp"

#include <algorithm>
#include <array>

namespace capstan {
namespace {

struct DataTypeInfo {
  std::string_view name;
  std::uint64_t size;
};

using enum DataType;
using enum ReduceOp;

constexpr std::array data_types{i8,   u8,  i32, u32,     i64,     u64, f16,
                                bf16, f32, f64, f8_e4m3, f8_e5m2, c64, c128};
constexpr std::array<DataTypeInfo, data_types.size()> data_type_infos{{{"i8", 1},
                                                                       {"u8", 1},
                                                                       {"i32", 4},
                                                                       {"u32", 4},
                                                                       {"i64", 8},
                                                                       {"u64", 8},
                                                                       {"f16", 2},
                                                                       {"bf16", 2},
                                                                       {"f32", 4},
                                                                       {"f64", 8},
                                                                       {"f8_e4m3", 1},
                                                                       {"f8_e5m2", 1},
                                                                       {"c64", 8},
                                                                       {"c128", 16}}};

constexpr std::array reduce_ops{sum,    product, min,         max,        average,    bit_and,
                                bit_or, bit_xor, logical_and, logical_or, logical_xor};
constexpr std::array<std::string_view, reduce_ops.size()> reduce_op_names{
    "sum",    "product", "min",         "max",        "average",    "bit_and",
    "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};

template <class Values>
std::optional<typename Values::value_type> find_named(const Values& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, [](auto v) { return name_of(v); });
  if (found == values.end()) return std::nullopt;
  return *found;
}

}  // namespace

std::span<const DataType> all_data_types() {
  return data_types;
}
std::span<const ReduceOp> all_reduce_ops() {
  return reduce_ops;
}

bool is_integer(DataType type) {
  return type <= u64;
}
bool is_complex(DataType type) {
  return type == c64 || type == c128;
}

bool supports(DataType type, ReduceOp op) {
  if (op == bit_and || op == bit_or || op == bit_xor) return is_integer(type);
  return !is_complex(type) || op == sum || op == product || op == average;
}

Bytes size_of(DataType type) {
  return Bytes{data_type_infos[static_cast<std::size_t>(type)].size};
}

std::string_view name_of(DataType type) {
  return data_type_infos[static_cast<std::size_t>(type)].name;
}
std::string_view name_of(ReduceOp op) {
  return reduce_op_names[static_cast<std::size_t>(op)];
}

std::optional<DataType> data_type_named(std::string_view name) {
  return find_named(data_types, name);
}
std::optional<ReduceOp> reduce_op_named(std::string_view name) {
  return find_named(reduce_ops, name);
}

}  // namespace capstan
