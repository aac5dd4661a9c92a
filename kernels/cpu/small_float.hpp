#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/ir/types.hpp"

namespace capstan::kernels {

/// Floats of 8 or 16 bits: how their bits are a value. Conversion of one element, without SIMD.
struct SmallFloat {
  int exponent_bits, fraction_bits;
  bool has_infinity = true;  ///< if not, the largest code is the only NaN

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
  /// The codes from here on are no numbers, or infinite.
  constexpr std::uint32_t beyond() const {
    return has_infinity ? ((1u << exponent_bits) - 1) << fraction_bits : sign_bit() - 1;
  }
  constexpr std::uint32_t quiet_nan() const {
    return has_infinity ? beyond() | 1u << (fraction_bits - 1) : beyond();
  }

  float decode(std::uint32_t bits) const {
    const float sign = (bits & sign_bit()) != 0 ? -1.0f : 1.0f;
    const std::uint32_t code = bits & (sign_bit() - 1);
    if (code == beyond() && has_infinity) return sign * std::numeric_limits<float>::infinity();
    if (code >= beyond()) return std::numeric_limits<float>::quiet_NaN();
    const auto exponent = static_cast<int>(code >> fraction_bits);
    const auto fraction = static_cast<float>(code & ((1u << fraction_bits) - 1));
    const float significand =
        exponent == 0 ? fraction : fraction + static_cast<float>(1u << fraction_bits);
    return sign * std::ldexp(significand, (exponent == 0 ? 1 : exponent) - bias() - fraction_bits);
  }

  /// To nearest, ties to even. What is too large becomes infinite, or NaN where there is no
  /// infinity.
  std::uint32_t encode(float value) const {
    if (std::isnan(value)) return quiet_nan();
    const std::uint32_t sign = std::signbit(value) ? sign_bit() : 0;
    const float magnitude = std::fabs(value);
    if (magnitude == 0) return sign;
    if (std::isinf(magnitude)) return sign | beyond();
    // The unit of the last place, at this value's exponent or the smallest there is.
    const int exponent = std::max(std::ilogb(magnitude), 1 - bias());
    const float units = std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent));
    const auto code = static_cast<std::int64_t>(units) +
                      (static_cast<std::int64_t>(exponent + bias() - 1) << fraction_bits);
    return sign | static_cast<std::uint32_t>(std::min<std::int64_t>(code, beyond()));
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
concept IsSmallFloat = small_float_of<T>
.exponent_bits > 0;

template <IsSmallFloat T>
float to_float(T value) {
  return small_float_of<T>.decode(value.bits);
}
template <IsSmallFloat T>
T from_float(float value) {
  return {static_cast<decltype(T::bits)>(small_float_of<T>.encode(value))};
}

}  // namespace capstan::kernels
