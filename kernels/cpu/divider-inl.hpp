// SPDX-License-Identifier: Apache-2.0

// Division of every lane by one number that is known only at run time. Compiled once per target.
#if defined(CAPSTAN_KERNELS_DIVIDER_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_KERNELS_DIVIDER_INL_HPP
#undef CAPSTAN_KERNELS_DIVIDER_INL_HPP
#else
#define CAPSTAN_KERNELS_DIVIDER_INL_HPP
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
inline constexpr std::size_t lane_size = sizeof(hn::TFromV<V>);

/// Upper half of the product of each lane with `factor`.
template <class V>
  requires(lane_size<V> == 1)
HWY_INLINE V mul_high(V v, std::uint8_t factor) {
  const hn::DFromV<V> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto m = hn::Set(wide, std::uint16_t{factor});
  const auto low_byte = hn::Set(wide, std::uint16_t{0xFF});
  const auto both = hn::BitCast(wide, v);
  const auto even = hn::ShiftRight<8>(hn::And(both, low_byte) * m);
  const auto odd = hn::AndNot(low_byte, hn::ShiftRight<8>(both) * m);
  return hn::BitCast(d, hn::Or(even, odd));
}

template <class V>
  requires(lane_size<V> == 4)
HWY_INLINE V mul_high(V v, std::uint32_t factor) {
  const hn::DFromV<V> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto m = hn::Set(d, factor);
  const auto odd_lanes = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, v)));
  const auto even = hn::ShiftRight<32>(hn::MulEven(v, m));
  const auto odd = hn::AndNot(hn::Set(wide, 0xFFFFFFFFu), hn::MulEven(odd_lanes, m));
  return hn::BitCast(d, hn::Or(even, odd));
}

/// Schoolbook product of 32-bit digits.
template <class V>
  requires(lane_size<V> == 8)
HWY_INLINE V mul_high(V v, std::uint64_t factor) {
  const hn::DFromV<V> d;
  const hn::RepartitionToNarrow<decltype(d)> digits;
  const auto low_digit = hn::Set(d, std::uint64_t{0xFFFFFFFFu});
  const auto v_low = hn::BitCast(digits, v);
  const auto v_high = hn::BitCast(digits, hn::ShiftRight<32>(v));
  const auto m_low = hn::BitCast(digits, hn::Set(d, factor & 0xFFFFFFFFu));
  const auto m_high = hn::BitCast(digits, hn::Set(d, factor >> 32));
  const auto high_low = hn::MulEven(v_high, m_low);
  const auto middle = hn::ShiftRight<32>(hn::MulEven(v_low, m_low)) + hn::And(high_low, low_digit) +
                      hn::MulEven(v_low, m_high);
  return hn::MulEven(v_high, m_high) + hn::ShiftRight<32>(high_low) + hn::ShiftRight<32>(middle);
}

/// Divides integers, truncating towards zero, by multiplication with a rounded-up reciprocal.
/// Source: Granlund and Montgomery, "Division by Invariant Integers using Multiplication", PLDI
/// 1994, figure 4.1.
template <class T>
class Divider {
 public:
  using Unsigned = std::make_unsigned_t<T>;

  /// `divisor` is at least 2.
  explicit Divider(std::uint32_t divisor) : divisor_(divisor) {
    // All 8-bit values are below 256, so that every divisor from 256 on gives zero.
    if constexpr (sizeof(T) == 1) divisor = std::min(divisor, 256u);
    const int log = std::bit_width(divisor - 1);  // rounded up
    const std::uint64_t excess = (std::uint64_t{1} << log) - divisor;
    factor_ = static_cast<Unsigned>(scaled(excess, divisor) + 1);
    shift_ = log - 1;
  }

  template <class V>
  HWY_INLINE V divide(V v) const {
    const hn::DFromV<V> d;
    if constexpr (hn::MaxLanes(d) == 1) {
      using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
      return hn::Set(d, static_cast<T>(Wide{hn::GetLane(v)} / Wide{divisor_}));
    } else if constexpr (std::is_signed_v<T>) {
      const hn::RebindToUnsigned<decltype(d)> magnitude;
      const auto sign = hn::BroadcastSignBit(v);
      const auto quotient = divide_unsigned(hn::BitCast(magnitude, hn::Xor(v, sign) - sign));
      return hn::Xor(hn::BitCast(d, quotient), sign) - sign;
    } else {
      return divide_unsigned(v);
    }
  }

 private:
  /// floor(excess * 2^bits / divisor), in long division by 32-bit digits; excess < divisor < 2^32.
  static std::uint64_t scaled(std::uint64_t excess, std::uint64_t divisor) {
    if constexpr (sizeof(T) < 8) {
      return (excess << (8 * sizeof(T))) / divisor;
    } else {
      const std::uint64_t high = (excess << 32) / divisor;
      return high << 32 | (((excess << 32) % divisor) << 32) / divisor;
    }
  }

  template <class V>
  HWY_INLINE V divide_unsigned(V v) const {
    const V high = mul_high(v, factor_);
    return hn::ShiftRightSame(high + hn::ShiftRight<1>(v - high), shift_);
  }

  std::uint32_t divisor_;
  Unsigned factor_;
  int shift_;
};

/// Divides floating-point numbers.
template <class T>
  requires std::is_floating_point_v<T>
class Divider<T> {
 public:
  explicit Divider(std::uint32_t divisor)
      : divisor_(static_cast<T>(divisor)),
        reciprocal_(1 / divisor_),
        reciprocal_is_exact_(std::has_single_bit(divisor)) {}

  /// Multiplying by an exact reciprocal gives the same result and is several times faster.
  template <class V>
  HWY_INLINE V divide(V v) const {
    const hn::DFromV<V> d;
    return reciprocal_is_exact_ ? v * hn::Set(d, reciprocal_) : v / hn::Set(d, divisor_);
  }

 private:
  T divisor_, reciprocal_;
  bool reciprocal_is_exact_;
};

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
