// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Element types. f16 is IEEE binary16, bf16 is the upper half of an IEEE binary32, f8_e4m3 (no
/// infinity) and f8_e5m2 are the 8-bit floats of the Open Compute Project ("OFP8", 2023), c64 and
/// c128 are complex numbers of two f32 and of two f64.
enum class DataType : std::uint8_t {
  i8,
  u8,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  f8_e4m3,
  f8_e5m2,
  c64,
  c128
};

/// Reduction operations. `average` is a sum that is divided by the number of ranks once, when an
/// element is complete. Integers wrap around: sums and products modulo 2^bits, also the sum of an
/// average, which is then divided and truncated towards zero, as in C++. The average of i8 {100,
/// 100, 100} is 44 / 3 = 14: where sums may overflow, pass a wider type. Logical operations take
/// values other than 0 as true and give 1 or 0.
enum class ReduceOp : std::uint8_t {
  sum,
  product,
  min,
  max,
  average,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or,
  logical_xor
};

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

/// An 8-bit float with 3 bits of fraction, as stored; arithmetic happens in f32. Values beyond
/// its range become NaN.
struct Float8E4M3 {
  std::uint8_t bits;
  bool operator==(const Float8E4M3&) const = default;
};

/// An 8-bit float with 2 bits of fraction, as stored; arithmetic happens in f32. Values beyond
/// its range become infinite.
struct Float8E5M2 {
  std::uint8_t bits;
  bool operator==(const Float8E5M2&) const = default;
};

bool is_integer(DataType type);
bool is_complex(DataType type);

/// Whether an operation is defined for a type: bitwise ones for integers; complex numbers have sum,
/// product and average only.
bool supports(DataType type, ReduceOp op);

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

/// The DataType of an integer, by its size and sign: of all integers that have 8, 32 or 64 bits,
/// whatever their name, `char` and `long long` among them, and of std::byte, which is u8. None for
/// bool, 16-bit integers and characters of Unicode.
template <class T>
consteval std::optional<DataType> integer_type_of() {
  if (std::is_same_v<T, std::byte>) return DataType::u8;
  constexpr bool is_text = std::is_same_v<T, wchar_t> || std::is_same_v<T, char8_t> ||
                           std::is_same_v<T, char16_t> || std::is_same_v<T, char32_t>;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && !is_text) {
    const bool is_signed = std::is_signed_v<T>;
    if (sizeof(T) == 1) return is_signed ? DataType::i8 : DataType::u8;
    if (sizeof(T) == 4) return is_signed ? DataType::i32 : DataType::u32;
    if (sizeof(T) == 8) return is_signed ? DataType::i64 : DataType::u64;
  }
  return std::nullopt;
}

/// Maps a C++ element type to its DataType: data_type_of<float> == DataType::f32.
template <class T>
inline constexpr std::optional<DataType> data_type_of = integer_type_of<T>();
template <>
inline constexpr std::optional<DataType> data_type_of<Float16> = DataType::f16;
template <>
inline constexpr std::optional<DataType> data_type_of<BFloat16> = DataType::bf16;
template <>
inline constexpr std::optional<DataType> data_type_of<float> = DataType::f32;
template <>
inline constexpr std::optional<DataType> data_type_of<double> = DataType::f64;
template <>
inline constexpr std::optional<DataType> data_type_of<Float8E4M3> = DataType::f8_e4m3;
template <>
inline constexpr std::optional<DataType> data_type_of<Float8E5M2> = DataType::f8_e5m2;
template <>
inline constexpr std::optional<DataType> data_type_of<std::complex<float>> = DataType::c64;
template <>
inline constexpr std::optional<DataType> data_type_of<std::complex<double>> = DataType::c128;

/// A C++ type that the collectives accept as an element.
template <class T>
concept Element = data_type_of<T>.has_value();

}  // namespace CAPSTAN_EXPORT capstan
