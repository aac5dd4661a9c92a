// SPDX-License-Identifier: Apache-2.0

// Conversions between f32 and 16-bit floats, equal on all targets. Compiled once per target.
#if defined(CAPSTAN_KERNELS_FLOAT16_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_KERNELS_FLOAT16_INL_HPP
#undef CAPSTAN_KERNELS_FLOAT16_INL_HPP
#else
#define CAPSTAN_KERNELS_FLOAT16_INL_HPP
#endif

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Rounds the upper 16 bits of each f32 to nearest even; the lower 16 bits are then meaningless.
/// A NaN has to be the canonical one: others could carry into the sign.
template <class D>
HWY_INLINE auto round_to_bf16(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> bits;
  const auto raw = hn::BitCast(bits, v);
  const auto last_kept_bit = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1u));
  return raw + last_kept_bit + hn::Set(bits, 0x7FFFu);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <class D>
HWY_INLINE auto widen_f16(D wide, hn::Vec<hn::Rebind<std::uint16_t, D>> half) {
  return hn::PromoteTo(wide, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
}

/// Rounds to nearest even; a NaN has to be the canonical one.
template <class D>
HWY_INLINE auto round_to_f16(D, hn::Vec<D> v) {
  return hn::BitCast(hn::Rebind<std::uint16_t, D>(),
                     hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
}

#else  // no conversion instructions (or not through Highway)

/// Exponent and mantissa are shifted into place and the exponent is rebiased by integer arithmetic.
/// Subnormals have the scale of exponent 1 but no implicit bit; subtracting the value of that bit
/// is exact.
template <class D>
HWY_INLINE auto widen_f16(D wide, hn::Vec<hn::Rebind<std::uint16_t, D>> half) {
  const hn::RebindToUnsigned<D> bits;
  const auto raw = hn::PromoteTo(bits, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(raw, hn::Set(bits, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(raw, hn::Set(bits, 0x7FFFu)));
  const auto exponent = hn::And(magnitude, hn::Set(bits, 0x1Fu << 23));

  const auto rebias = hn::Set(bits, (127u - 15u) << 23);
  const auto normal = magnitude + rebias;
  const auto infinite_or_nan = normal + rebias;
  const auto implicit_bit = hn::Set(bits, (127u - 14u) << 23);
  const auto subnormal = hn::BitCast(
      bits, hn::BitCast(wide, magnitude + implicit_bit) - hn::BitCast(wide, implicit_bit));

  const auto finite = hn::IfThenElse(exponent == hn::Zero(bits), subnormal, normal);
  const auto special = exponent == hn::Set(bits, 0x1Fu << 23);
  return hn::BitCast(wide, hn::Or(sign, hn::IfThenElse(special, infinite_or_nan, finite)));
}

/// Rounds to nearest even; a NaN has to be the canonical one. Normal results are rounded by integer
/// arithmetic (a carry out of the mantissa raises the exponent, up to infinity). Subnormal ones are
/// rounded by an f32 addition to 0.5, whose last place is worth the smallest f16 subnormal.
template <class D>
HWY_INLINE auto round_to_f16(D wide, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> ordered;  // magnitudes have bit 31 clear, signed compares are cheaper
  const auto raw = hn::BitCast(bits, v);
  const auto sign = hn::And(raw, hn::Set(bits, 0x80000000u));
  const auto magnitude = hn::Xor(raw, sign);
  const auto above = [&](std::uint32_t limit) HWY_ATTR {
    return hn::RebindMask(
        bits, hn::BitCast(ordered, magnitude) > hn::Set(ordered, static_cast<std::int32_t>(limit)));
  };

  const auto last_kept_bit = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(bits, 1u));
  const auto rebiased = magnitude - hn::Set(bits, (127u - 15u) << 23);
  const auto normal = hn::ShiftRight<13>(rebiased + last_kept_bit + hn::Set(bits, 0xFFFu));
  const auto half = hn::Set(wide, 0.5f);
  const auto subnormal =
      hn::BitCast(bits, hn::BitCast(wide, magnitude) + half) - hn::BitCast(bits, half);

  constexpr std::uint32_t smallest_normal = (127u - 14u) << 23, infinity = 0xFFu << 23;
  constexpr std::uint32_t too_large = (127u + 16u) << 23;
  auto result = hn::IfThenElse(above(smallest_normal - 1), normal, subnormal);
  result = hn::IfThenElse(above(too_large - 1), hn::Set(bits, 0x7C00u), result);
  result = hn::IfThenElse(above(infinity), hn::Set(bits, 0x7E00u), result);
  result = hn::Or(result, hn::ShiftRight<16>(sign));
  return hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::BitCast(ordered, result));
}

#endif

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
