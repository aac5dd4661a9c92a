#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "quantity.hpp"

namespace capstan {

/// Element types. f16 is IEEE binary16, bf16 is the upper half of an IEEE binary32.
enum class DataType : std::uint8_t { i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64 };

/// Reduction operations. `average` is a sum that is divided by the number of ranks once, when an
/// element is complete (integers: truncated towards zero, as in C++).
enum class ReduceOp : std::uint8_t { sum, product, min, max, average };

/// A 16-bit IEEE float as stored; arithmetic happens in f32 inside the kernels.
struct Float16 {
  std::uint16_t bits;
  bool operator==(const Float16&) const = default;
};

/// A bfloat16 as stored; arithmetic happens in f32 inside the kernels.
struct BFloat16 {
  std::uint16_t bits;
  bool operator==(const BFloat16&) const = default;
};

/// All values in declaration order, for tests, tables and `--help`.
std::span<const DataType> all_data_types();
std::span<const ReduceOp> all_reduce_ops();

Bytes size_of(DataType type);
constexpr Bytes bytes_of(Elements count, Bytes element) {
  return Bytes{count.value() * element.value()};
}

/// Names as users write them: "f32", "sum".
std::string_view name_of(DataType type);
std::string_view name_of(ReduceOp op);

/// The inverse of name_of; empty when `name` is none of them.
std::optional<DataType> data_type_named(std::string_view name);
std::optional<ReduceOp> reduce_op_named(std::string_view name);

/// Maps a C++ element type to its DataType: data_type_of<float> == DataType::f32.
template <class T>
inline constexpr std::optional<DataType> data_type_of = std::nullopt;
template <>
inline constexpr std::optional<DataType> data_type_of<std::int8_t> = DataType::i8;
template <>
inline constexpr std::optional<DataType> data_type_of<std::uint8_t> = DataType::u8;
template <>
inline constexpr std::optional<DataType> data_type_of<std::int32_t> = DataType::i32;
template <>
inline constexpr std::optional<DataType> data_type_of<std::uint32_t> = DataType::u32;
template <>
inline constexpr std::optional<DataType> data_type_of<std::int64_t> = DataType::i64;
template <>
inline constexpr std::optional<DataType> data_type_of<std::uint64_t> = DataType::u64;
template <>
inline constexpr std::optional<DataType> data_type_of<Float16> = DataType::f16;
template <>
inline constexpr std::optional<DataType> data_type_of<BFloat16> = DataType::bf16;
template <>
inline constexpr std::optional<DataType> data_type_of<float> = DataType::f32;
template <>
inline constexpr std::optional<DataType> data_type_of<double> = DataType::f64;

/// A C++ type that the collectives accept as an element.
template <class T>
concept Element = data_type_of<T>
.has_value();

}  // namespace capstan
