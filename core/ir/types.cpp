#include "types.hpp"

#include <algorithm>
#include <array>

namespace capstan {
namespace {

struct DataTypeInfo {
  std::string_view name;
  std::uint64_t size;
};

constexpr std::array data_types{DataType::i8,  DataType::u8,  DataType::i32, DataType::u32,
                                DataType::i64, DataType::u64, DataType::f16, DataType::bf16,
                                DataType::f32, DataType::f64};
constexpr std::array<DataTypeInfo, data_types.size()> data_type_infos{{{"i8", 1},
                                                                       {"u8", 1},
                                                                       {"i32", 4},
                                                                       {"u32", 4},
                                                                       {"i64", 8},
                                                                       {"u64", 8},
                                                                       {"f16", 2},
                                                                       {"bf16", 2},
                                                                       {"f32", 4},
                                                                       {"f64", 8}}};

constexpr std::array reduce_ops{ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                                ReduceOp::average};
constexpr std::array<std::string_view, reduce_ops.size()> reduce_op_names{"sum", "product", "min",
                                                                          "max", "average"};

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
