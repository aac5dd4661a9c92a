// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "capstan/types.hpp"

namespace capstan::kernels {

/// A format of floats of 8 or 16 bits. Converts one element, without SIMD.
struct SmallFloat {
  int exponent_bits, fraction_bits;
  bool has_infinity = true;  ///< if not, the largest code is the only NaN

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
  /// The first code that is infinite or NaN.
  constexpr std::uint32_t beyond() const {
    return has_infinity ? ((1u << exponent_bits) - 1) << fraction_bits : sign_bit() - 1;
  }
  constexpr std::uint32_t quiet_nan() const {
    return has_infinity ? beyond() | 1u << (fraction_bits - 1) : beyond();
  }

  constexpr float decode(std::uint32_t bits) const {
    const std::uint32_t code = bits & (sign_bit() - 1);
    const int shift = 23 - fraction_bits;
    const auto rebias = static_cast<std::uint32_t>(127 - bias()) << 23;
    const float normal = std::bit_cast<float>((code << shift) + rebias);
    const float subnormal = static_cast<float>(code) * power_of_two(1 - bias() - fraction_bits);
    float magnitude = code >> fraction_bits == 0 ? subnormal : normal;
    if (code >= beyond()) magnitude = std::numeric_limits<float>::quiet_NaN();
    if (code == beyond() && has_infinity) magnitude = std::numeric_limits<float>::infinity();
    const std::uint32_t sign = (bits & sign_bit()) << (31 - exponent_bits - fraction_bits);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }

  /// Rounds to nearest, ties to even. Too large a value becomes infinite, or NaN where there is no
  /// infinity. Has no branches, so that compilers vectorise a loop over it.
  constexpr std::uint32_t encode(float value) const {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fff'ffff, sign = bits >> 31;
    const int shift = 23 - fraction_bits;
    const auto rebias = static_cast<std::uint32_t>(127 - bias()) << 23;
    // Half a unit of the last place, or a little less if that makes the code even.
    const std::uint32_t even = (magnitude >> shift & 1) + (1u << (shift - 1)) - 1;
    const std::uint32_t normal = (magnitude - rebias + even) >> shift;
    // Adding a number whose last place is one subnormal rounds to whole subnormals.
    const float ruler = power_of_two(24 - bias() - fraction_bits);
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + ruler) -
        std::bit_cast<std::uint32_t>(ruler);
    std::uint32_t code = magnitude < rebias + (1u << 23) ? subnormal : normal;
    code = std::min(code, beyond()) | sign << (exponent_bits + fraction_bits);
    return magnitude > 0x7f80'0000 ? quiet_nan() : code;
  }

 private:
  static constexpr float power_of_two(int exponent) {
    return exponent > -127 ? std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23)
                           : std::bit_cast<float>(1u << (exponent + 149));
  }
};

template <class T>
inline constexpr SmallFloat small_float_of{};
template <>
inline constexpr SmallFloat small_float_of<Float16>{5, 10};
template <>
inline constexpr SmallFloat small_float_of<BFloat16>{8, 7};
template <>
inline constexpr SmallFloat small_float_of<Float8E4M3>{4, 3, false};
template <>
inline constexpr SmallFloat small_float_of<Float8E5M2>{5, 2};

template <class T>
concept IsSmallFloat = small_float_of<T>.exponent_bits > 0;

// The formats are copied: device code may use a constant of the host, but not its address.
template <IsSmallFloat T>
constexpr float to_float(T value) {
  constexpr SmallFloat format = small_float_of<T>;
  return format.decode(value.bits);
}
template <IsSmallFloat T>
constexpr T from_float(float value) {
  constexpr SmallFloat format = small_float_of<T>;
  return {static_cast<decltype(T::bits)>(format.encode(value))};
}

}  // namespace capstan::kernels
