// SPDX-License-Identifier: Apache-2.0

// The reduction operations on registers. Compiled once per target.
//
// An operation is an object made from the call's Reduction, with three steps:
//   lift     applied to each source's elements when they are loaded
//   combine  accumulator and next source -> accumulator
//   finish   applied once, before the result is encoded
#if defined(CAPSTAN_KERNELS_OPERATIONS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_KERNELS_OPERATIONS_INL_HPP
#undef CAPSTAN_KERNELS_OPERATIONS_INL_HPP
#else
#define CAPSTAN_KERNELS_OPERATIONS_INL_HPP
#endif

#include <limits>

#include "kernels/cpu/divider-inl.hpp"
#include "kernels/cpu/reduce.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
inline constexpr bool has_float_lanes = hwy::IsFloat<hn::TFromV<V>>();

/// Replaces NaNs by the canonical one: the NaN that an instruction returns depends on the order of
/// operands, which compilers change.
template <class V>
HWY_INLINE V with_canonical_nan(V v) {
  if constexpr (has_float_lanes<V>) {
    using Lane = hn::TFromV<V>;
    const auto nan = hn::Set(hn::DFromV<V>(), std::numeric_limits<Lane>::quiet_NaN());
    return hn::IfThenElse(hn::IsNaN(v), nan, v);
  } else {
    return v;
  }
}

/// a < b ? a : b, hence b if they are equal or either is NaN.
template <class V>
HWY_INLINE V lesser(V a, V b) {
#if HWY_ARCH_X86 && HWY_TARGET < HWY_EMU128
  return hn::Min(a, b);
#else
  return hn::IfThenElse(a < b, a, b);
#endif
}

/// The minimum of IEEE 754-2019: NaN if either is NaN, and -0 before +0. Where the two orders of
/// operands differ, the values are zeros of either sign (or gives -0) or one is a NaN (or keeps its
/// exponent full and its mantissa not zero).
template <class V>
HWY_INLINE V minimum(V a, V b) {
  return hn::Or(lesser(a, b), lesser(b, a));
}

struct Sum {
  explicit Sum(const Reduction&) {}
  template <class V>
  HWY_INLINE V lift(V v) const {
    return v;
  }
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return a + b;
  }
  template <class V>
  HWY_INLINE V finish(V v) const {
    return with_canonical_nan(v);
  }
};

struct Product : Sum {
  using Sum::Sum;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return a * b;
  }
};

struct Min : Sum {
  using Sum::Sum;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    if constexpr (has_float_lanes<V>) {
      return minimum(a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

/// For floats, the negated minimum of the negated sources.
struct Max {
  explicit Max(const Reduction&) {}
  template <class V>
  HWY_INLINE V lift(V v) const {
    if constexpr (has_float_lanes<V>) {
      return hn::Neg(v);
    } else {
      return v;
    }
  }
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    if constexpr (has_float_lanes<V>) {
      return minimum(a, b);
    } else {
      return hn::Max(a, b);
    }
  }
  template <class V>
  HWY_INLINE V finish(V v) const {
    return with_canonical_nan(lift(v));
  }
};

struct BitAnd : Sum {
  using Sum::Sum;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return hn::And(a, b);
  }
};

struct BitOr : Sum {
  using Sum::Sum;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return hn::Or(a, b);
  }
};

struct BitXor : Sum {
  using Sum::Sum;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return hn::Xor(a, b);
  }
};

/// Nonzero values become 1, so that only 0 and 1 are combined.
struct Logical : Sum {
  using Sum::Sum;
  template <class V>
  HWY_INLINE V lift(V v) const {
    const hn::DFromV<V> d;
    const V zero = hn::Zero(d);
    return hn::IfThenElse(hn::Eq(v, zero), zero, hn::Set(d, static_cast<hn::TFromV<V>>(1)));
  }
};

struct LogicalAnd : Logical {
  using Logical::Logical;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return hn::And(a, b);  // each lane is all ones or all zeros
  }
};

struct LogicalOr : Logical {
  using Logical::Logical;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return hn::Or(a, b);
  }
};

struct LogicalXor : Logical {
  using Logical::Logical;
  template <class V>
  HWY_INLINE V combine(V a, V b) const {
    return hn::Xor(a, b);
  }
};

/// `Lane` is the type that is divided: the element's own, or f32 for the 16-bit floats.
template <class Lane>
struct Average : Sum {
  explicit Average(const Reduction& r) : Sum(r), divider(r.divisor) {}
  template <class V>
  HWY_INLINE V finish(V v) const {
    return with_canonical_nan(divider.divide(v));
  }

  Divider<Lane> divider;
};

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
