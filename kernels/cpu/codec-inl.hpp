// SPDX-License-Identifier: Apache-2.0

// The form of elements in registers while they are combined. Compiled once per target.
#if defined(CAPSTAN_KERNELS_CODEC_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_KERNELS_CODEC_INL_HPP
#undef CAPSTAN_KERNELS_CODEC_INL_HPP
#else
#define CAPSTAN_KERNELS_CODEC_INL_HPP
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "capstan/types.hpp"
#include "kernels/cpu/float16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Bytes for multiplication: in 16-bit lanes, whose low half becomes the product mod 256.
struct WideByte {
  std::uint8_t bits;
};

/// Elements that are twice as wide in registers as in memory fill two registers. Constructors that
/// the compiler makes would not be compiled for the target, which GCC refuses on Arm.
template <class V>
struct Pair {
  HWY_INLINE Pair() {}
  HWY_INLINE Pair(V a, V b) : first(a), second(b) {}
  V first, second;
};

/// Codec<T, n> moves n elements of type T between memory and registers:
///   Stored   a register with n elements as memory holds them
///   load     memory -> the wide form that operations work on
///   encode   the wide form -> Stored
/// The primary template is for types that operations use as they are stored.
template <class T, std::size_t lanes>
struct Codec {
  using StoredTag = hn::Simd<T, lanes, 0>;
  static HWY_INLINE auto load(const T* from) { return hn::LoadU(StoredTag(), from); }
  static HWY_INLINE auto encode(hn::Vec<StoredTag> v) { return v; }
};

/// The elements at even and at odd places: widening them costs one instruction each.
template <std::size_t lanes>
struct Codec<BFloat16, lanes> {
  using StoredTag = hn::Simd<std::uint16_t, lanes, 0>;
  using WideTag = hn::Simd<float, lanes / 2, 0>;
  using Bits = hn::RebindToUnsigned<WideTag>;

  static HWY_INLINE Pair<hn::Vec<WideTag>> load(const BFloat16* from) {
    const auto both = hn::BitCast(Bits(), hn::LoadU(StoredTag(), &from->bits));
    const auto odd = hn::And(both, hn::Set(Bits(), 0xFFFF0000u));
    return {hn::BitCast(WideTag(), hn::ShiftLeft<16>(both)), hn::BitCast(WideTag(), odd)};
  }
  static HWY_INLINE auto encode(Pair<hn::Vec<WideTag>> v) {
    const auto even = hn::ShiftRight<16>(round_to_bf16(WideTag(), v.first));
    const auto odd = hn::And(round_to_bf16(WideTag(), v.second), hn::Set(Bits(), 0xFFFF0000u));
    return hn::BitCast(StoredTag(), hn::Or(even, odd));
  }
};

template <>
struct Codec<BFloat16, 1> {
  using StoredTag = hn::Simd<std::uint16_t, 1, 0>;
  using WideTag = hn::Simd<float, 1, 0>;

  static HWY_INLINE auto load(const BFloat16* from) {
    return hn::Set(WideTag(), std::bit_cast<float>(std::uint32_t{from->bits} << 16));
  }
  static HWY_INLINE auto encode(hn::Vec<WideTag> v) {
    const std::uint32_t bits = hn::GetLane(round_to_bf16(WideTag(), v));
    return hn::Set(StoredTag(), static_cast<std::uint16_t>(bits >> 16));
  }
};

#if HWY_TARGET != HWY_SCALAR  // has no Combine, and no need of one
/// The lower and the upper half of the elements: this is what the conversion instructions take.
template <std::size_t lanes>
struct Codec<Float16, lanes> {
  using StoredTag = hn::Simd<std::uint16_t, lanes, 0>;
  using HalfTag = hn::Simd<std::uint16_t, lanes / 2, 0>;
  using WideTag = hn::Simd<float, lanes / 2, 0>;

  static HWY_INLINE Pair<hn::Vec<WideTag>> load(const Float16* from) {
    return {widen_f16(WideTag(), hn::LoadU(HalfTag(), &from->bits)),
            widen_f16(WideTag(), hn::LoadU(HalfTag(), &from[lanes / 2].bits))};
  }
  static HWY_INLINE auto encode(Pair<hn::Vec<WideTag>> v) {
    return hn::Combine(StoredTag(), round_to_f16(WideTag(), v.second),
                       round_to_f16(WideTag(), v.first));
  }
};
#endif

template <>
struct Codec<Float16, 1> {
  using StoredTag = hn::Simd<std::uint16_t, 1, 0>;
  using WideTag = hn::Simd<float, 1, 0>;

  static HWY_INLINE auto load(const Float16* from) {
    return widen_f16(WideTag(), hn::Set(StoredTag(), from->bits));
  }
  static HWY_INLINE auto encode(hn::Vec<WideTag> v) { return round_to_f16(WideTag(), v); }
};

template <std::size_t lanes>
struct Codec<WideByte, lanes> {
  using StoredTag = hn::Simd<std::uint8_t, lanes, 0>;
  using WideTag = hn::Simd<std::uint16_t, lanes / 2, 0>;

  static HWY_INLINE Pair<hn::Vec<WideTag>> load(const WideByte* from) {
    const auto both = hn::BitCast(WideTag(), hn::LoadU(StoredTag(), &from->bits));
    return {both, hn::ShiftRight<8>(both)};
  }
  static HWY_INLINE auto encode(Pair<hn::Vec<WideTag>> v) {
    const auto even = hn::And(v.first, hn::Set(WideTag(), std::uint16_t{0xFF}));
    return hn::BitCast(StoredTag(), hn::Or(even, hn::ShiftLeft<8>(v.second)));
  }
};

template <>
struct Codec<WideByte, 1> {
  using StoredTag = hn::Simd<std::uint8_t, 1, 0>;
  using WideTag = hn::Simd<std::uint16_t, 1, 0>;

  static HWY_INLINE auto load(const WideByte* from) {
    return hn::Set(WideTag(), std::uint16_t{from->bits});
  }
  static HWY_INLINE auto encode(hn::Vec<WideTag> v) {
    return hn::Set(StoredTag(), static_cast<std::uint8_t>(hn::GetLane(v)));
  }
};

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
