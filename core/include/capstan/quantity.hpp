// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// An integer that counts one kind of thing, so that elements, bytes and ranks cannot be mixed up.
template <class Tag, class Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) { return value_ += other.value_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value_ -= other.value_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep factor) {
    return Quantity{a.value_ * factor};
  }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) {
    return Quantity{a.value_ / divisor};
  }

 private:
  Rep value_{};
};

/// A number of elements, or an offset counted in elements.
using Elements = Quantity<struct ElementsTag, std::uint64_t>;

/// A number of bytes, or an offset counted in bytes.
using Bytes = Quantity<struct BytesTag, std::uint64_t>;

/// A process or thread of the world, 0 .. size-1. Arithmetic on ranks goes through `Group`.
class Rank {
 public:
  constexpr Rank() = default;
  constexpr explicit Rank(std::int32_t value) : value_(value) {}
  constexpr std::int32_t value() const { return value_; }
  constexpr auto operator<=>(const Rank&) const = default;

 private:
  std::int32_t value_ = 0;
};

}  // namespace capstan
