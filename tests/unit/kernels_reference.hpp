// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "capstan/types.hpp"

namespace capstan {

/// The name of an instruction set as a part of a test's name: "AVX_512".
inline std::string test_name_of(std::string_view target) {
  std::string name{target};
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace capstan

/// The results that the kernels have to compute, one element at a time and without vector code.
namespace capstan::reference {

/// Layout of a 16-bit float: sign, exponent, `fraction_bits` of fraction.
struct Format16 {
  int fraction_bits;
  int bias;
  std::uint16_t infinity, quiet_nan;
};
inline constexpr Format16 binary16{10, 15, 0x7C00, 0x7E00};
inline constexpr Format16 bfloat16{7, 127, 0x7F80, 0x7FC0};

inline float widen(std::uint16_t bits, Format16 format) {
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int magnitude = bits & 0x7FFF, fraction = magnitude & ((1 << format.fraction_bits) - 1);
  const int exponent = magnitude >> format.fraction_bits;
  if (magnitude > format.infinity) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude == format.infinity) return sign * std::numeric_limits<float>::infinity();
  const int significand = exponent == 0 ? fraction : fraction | 1 << format.fraction_bits;
  return sign * std::ldexp(static_cast<float>(significand),
                           std::max(exponent, 1) - format.bias - format.fraction_bits);
}

/// significand / 2^shift, rounded to nearest even.
inline std::uint32_t shift_to_nearest_even(std::uint32_t significand, int shift) {
  if (shift > 31) return 0;
  const std::uint32_t unit = 1u << shift, rest = significand & (unit - 1);
  const std::uint32_t floor = significand >> shift;
  const bool up = rest > unit / 2 || (rest == unit / 2 && shift > 0 && (floor & 1) != 0);
  return floor + (up ? 1 : 0);
}

inline std::uint16_t narrow(float value, Format16 format) {
  if (std::isnan(value)) return format.quiet_nan;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const int exponent = static_cast<int>(bits >> 23 & 0xFF);
  if (exponent == 0xFF) return sign | format.infinity;
  const std::uint32_t significand = (bits & 0x7FFFFF) | (exponent == 0 ? 0 : 1 << 23);
  const int scale = std::max(exponent, 1) - 127;        // value = significand * 2^(scale-23)
  const int target = std::max(scale, 1 - format.bias);  // of the result, before a carry
  const std::uint32_t rounded =
      shift_to_nearest_even(significand, target - scale + 23 - format.fraction_bits);
  const std::uint32_t result =
      (static_cast<std::uint32_t>(target + format.bias - 1) << format.fraction_bits) + rounded;
  return sign | static_cast<std::uint16_t>(std::min<std::uint32_t>(result, format.infinity));
}

inline float widen(Float16 v) {
  return widen(v.bits, binary16);
}
inline float widen(BFloat16 v) {
  return widen(v.bits, bfloat16);
}
template <class T>
T widen(T v) {
  return v;
}

template <class T, class Wide>
T narrow(Wide v) {
  if constexpr (std::is_same_v<T, Float16>) {
    return {narrow(v, binary16)};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {narrow(v, bfloat16)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(v) ? std::numeric_limits<T>::quiet_NaN() : v;
  } else {
    return v;
  }
}

/// Whether a comes before b in the order of IEEE 754 minimum, in which -0 is less than +0.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == b) return std::signbit(a) && !std::signbit(b);
  }
  return a < b;
}

template <class T>
T truth(ReduceOp op, T a, T b) {
  const bool x = a != 0, y = b != 0;
  const bool both = x && y, any = x || y;
  return static_cast<T>(op == ReduceOp::logical_and  ? both
                        : op == ReduceOp::logical_or ? any
                                                     : x != y);
}

template <class T>
T combine(ReduceOp op, T a, T b) {
  if (op >= ReduceOp::logical_and) return truth(op, a, b);
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::bit_and) return static_cast<T>(a & b);
    if (op == ReduceOp::bit_or) return static_cast<T>(a | b);
    if (op == ReduceOp::bit_xor) return static_cast<T>(a ^ b);
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  }
  if (op == ReduceOp::min) return less(b, a) ? b : a;
  if (op == ReduceOp::max) return less(a, b) ? b : a;
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<T>(op == ReduceOp::product ? x * y : x + y);
  } else {
    return op == ReduceOp::product ? a * b : a + b;
  }
}

template <class T>
T divide(T a, std::uint32_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return a / static_cast<T>(divisor);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(std::int64_t{a} / std::int64_t{divisor});
  } else {
    return static_cast<T>(std::uint64_t{a} / divisor);
  }
}

/// One element of the result, from that element of each source.
template <class T>
T reduce(ReduceOp op, std::span<const T> values, std::uint32_t divisor) {
  const bool divides = op == ReduceOp::average && divisor > 1;
  if (values.size() == 1 && !divides) return values[0];
  auto result = widen(values[0]);
  for (const T& value : values.subspan(1)) result = combine(op, result, widen(value));
  return narrow<T>(divides ? divide(result, divisor) : result);
}

}  // namespace capstan::reference
