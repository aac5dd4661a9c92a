// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "capstan/types.hpp"
#include "kernels/cpu/small_float.hpp"
#include "kernels/device/attributes.hpp"

/// Elements on a device: how they are held while they are combined, and the operations on them.
/// Results are bit for bit those of the processor's kernels (kernels/cpu/reduce.hpp lists the
/// rules). Source files that include this are compiled without contracted multiply-adds.
namespace capstan::kernels::device {

template <class Real>
struct Complex {
  Real re, im;
};
template <class V>
inline constexpr bool is_complex_v = false;
template <class Real>
inline constexpr bool is_complex_v<Complex<Real>> = true;

/// The form in which elements of type T are combined.
template <class T>
struct WideOf {
  using type = std::conditional_t<IsSmallFloat<T>, float, T>;
};
template <class T>
using Wide = typename WideOf<T>::type;

template <class M, class T>
CAPSTAN_DEVICE Wide<T> widen(const M& m, T v) {
  if constexpr (std::is_same_v<T, Float16>) {
    return m.half_to_float(v.bits);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(std::uint32_t{v.bits} << 16);
  } else if constexpr (IsSmallFloat<T>) {
    return to_float(v);
  } else {
    return v;
  }
}

/// The inverse, rounded to nearest even; a NaN has to be the canonical one.
template <class T, class M>
CAPSTAN_DEVICE T narrow(const M& m, Wide<T> v) {
  if constexpr (std::is_same_v<T, Float16>) {
    return {m.float_to_half(v)};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const auto raw = std::bit_cast<std::uint32_t>(v);
    return {static_cast<std::uint16_t>((raw + (raw >> 16 & 1) + 0x7fff) >> 16)};
  } else if constexpr (IsSmallFloat<T>) {
    return from_float<T>(v);
  } else {
    return v;
  }
}

template <class V>
CAPSTAN_DEVICE V canonical(V v) {
  if constexpr (is_complex_v<V>) {
    return {canonical(v.re), canonical(v.im)};
  } else if constexpr (std::is_floating_point_v<V>) {
    return v == v ? v : std::numeric_limits<V>::quiet_NaN();
  } else {
    return v;
  }
}

/// Integers wrap around.
template <class V>
CAPSTAN_DEVICE V add(V a, V b) {
  if constexpr (is_complex_v<V>) {
    return {a.re + b.re, a.im + b.im};
  } else if constexpr (std::is_integral_v<V>) {
    using Unsigned = std::make_unsigned_t<V>;
    return static_cast<V>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}
template <class V>
CAPSTAN_DEVICE V multiply(V a, V b) {
  if constexpr (is_complex_v<V>) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  } else if constexpr (std::is_integral_v<V>) {
    using Unsigned = std::make_unsigned_t<V>;
    return static_cast<V>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
  } else {
    return a * b;
  }
}
/// The divisor is a number of ranks, so it fits 31 bits. A division of 64 bits takes so many
/// registers that a block of bytes, 16 to a pack, would not fit a compute unit.
template <class V>
CAPSTAN_DEVICE V divide(V v, std::uint32_t divisor) {
  if constexpr (is_complex_v<V>) {
    return {divide(v.re, divisor), divide(v.im, divisor)};
  } else if constexpr (std::is_integral_v<V>) {
    using Word = std::conditional_t<std::is_signed_v<V>, std::int32_t, std::uint32_t>;
    using Quotient = std::common_type_t<V, Word>;
    return static_cast<V>(Quotient{v} / static_cast<Quotient>(divisor));
  } else {
    return v / static_cast<V>(divisor);
  }
}

/// The minimum of IEEE 754-2019: NaN if either is NaN, and -0 before +0. Where neither is less, the
/// values are equal (zeros of either sign: or gives -0) or one is a NaN (or keeps its exponent full
/// and its mantissa not zero).
template <class V>
CAPSTAN_DEVICE V minimum(V a, V b) {
  if (a < b) return a;
  if (b < a) return b;
  if constexpr (std::is_floating_point_v<V>) {
    using Bits = std::conditional_t<sizeof(V) == 4, std::uint32_t, std::uint64_t>;
    return std::bit_cast<V>(std::bit_cast<Bits>(a) | std::bit_cast<Bits>(b));
  } else {
    return b;
  }
}
template <class V>
CAPSTAN_DEVICE V maximum(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    return -minimum(-a, -b);
  } else {
    return a < b ? b : a;
  }
}

/// Applied to each source's elements. Of logical operations only 0 and 1 are combined.
template <ReduceOp op, class V>
CAPSTAN_DEVICE V lift(V v) {
  if constexpr (op >= ReduceOp::logical_and) {
    return v == V{0} ? V{0} : V{1};
  } else {
    return v;
  }
}

template <ReduceOp op, class V>
CAPSTAN_DEVICE V combine(V a, V b) {
  using enum ReduceOp;
  if constexpr (op == sum || op == average) {
    return add(a, b);
  } else if constexpr (op == product) {
    return multiply(a, b);
  } else if constexpr (op == min || op == logical_and) {
    return minimum(a, b);
  } else if constexpr (op == max || op == logical_or) {
    return maximum(a, b);
  } else if constexpr (op == logical_xor) {
    return a == b ? V{0} : V{1};
  } else if constexpr (op == bit_and) {
    return static_cast<V>(a & b);
  } else if constexpr (op == bit_or) {
    return static_cast<V>(a | b);
  } else {
    return static_cast<V>(a ^ b);
  }
}

/// Applied once, when all sources are combined.
template <ReduceOp op, class V>
CAPSTAN_DEVICE V finish(V v, std::uint32_t divisor) {
  if constexpr (op == ReduceOp::average) {
    if (divisor > 1) v = divide(v, divisor);
  }
  return canonical(v);
}

}  // namespace capstan::kernels::device
