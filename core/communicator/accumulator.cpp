// SPDX-License-Identifier: Apache-2.0
#include "capstan/accumulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// Bit 0 of plane 0 counts 2^-origin, which is less than any number. A multiple of a digit's bits.
constexpr int origin = 1088, digit_bits = 32;
constexpr std::uint64_t digit_mask = 0xffff'ffff;
/// Digits of the largest sum of numbers, with all carries.
constexpr int most_digits = 72;
/// Digits are carried before a sum of so many could overflow 64 bits.
constexpr std::int64_t most_added = std::int64_t{1} << 30;

/// A format of IEEE 754: bits of the significand, with the one that is not stored, and of the
/// exponent.
template <class Stored, int significand, int exponent>
struct Format {
  using Bits = Stored;
  static constexpr int precision = significand;
  static constexpr int largest_field = (1 << exponent) - 1;
  static constexpr int least_exponent = 2 - (1 << (exponent - 1));  // of normal numbers
  static constexpr Bits fraction_mask = (Bits{1} << (precision - 1)) - 1;
  static constexpr Bits sign_bit = Bits{1} << (sizeof(Bits) * 8 - 1);
};

/// Calls visit(Format) for the real numbers of a type. False for other types.
template <class Visit>
bool with_format(DataType type, Visit visit) {
  switch (type) {
    case DataType::f16:
      visit(Format<std::uint16_t, 11, 5>{});
      return true;
    case DataType::bf16:
      visit(Format<std::uint16_t, 8, 8>{});
      return true;
    case DataType::f32:
    case DataType::c64:
      visit(Format<std::uint32_t, 24, 8>{});
      return true;
    case DataType::f64:
    case DataType::c128:
      visit(Format<std::uint64_t, 53, 11>{});
      return true;
    default:
      return false;
  }
}

/// magnitude · 2^(position - origin), or no finite number.
struct Number {
  std::uint64_t magnitude = 0;
  int position = 0;
  bool negative = false, infinite = false, nan = false;

  int first_digit() const { return (position + std::countr_zero(magnitude)) / digit_bits; }
  int last_digit() const {
    return (position + static_cast<int>(std::bit_width(magnitude)) - 1) / digit_bits;
  }
};

template <class F>
Number number_at(const void* numbers, std::size_t i) {
  typename F::Bits bits{};
  std::memcpy(&bits, static_cast<const std::byte*>(numbers) + i * sizeof bits, sizeof bits);
  Number number{.magnitude = static_cast<std::uint64_t>(bits & F::fraction_mask),
                .negative = (bits & F::sign_bit) != 0};
  const int field =
      static_cast<int>((bits & static_cast<typename F::Bits>(~F::sign_bit)) >> (F::precision - 1));
  if (field == F::largest_field) {
    number.nan = number.magnitude != 0;
    number.infinite = !number.nan;
    return number;
  }
  if (field != 0) number.magnitude |= std::uint64_t{1} << (F::precision - 1);
  number.position = std::max(field, 1) - 1 + F::least_exponent - (F::precision - 1) + origin;
  return number;
}

/// The planes that the finite numbers of an array need; first > last: none.
struct Digits {
  int first = most_digits, last = -1;
};

template <class F>
Digits digits_of(const void* numbers, std::size_t count, bool& specials) {
  Digits digits;
  for (std::size_t i = 0; i < count; ++i) {
    const Number number = number_at<F>(numbers, i);
    if (number.nan || number.infinite) {
      specials = true;
    } else if (number.magnitude != 0) {
      digits.first = std::min(digits.first, number.first_digit());
      digits.last = std::max(digits.last, number.last_digit());
    }
  }
  return digits;
}

/// An exact sum: its sign, and its digits from the least on.
struct Exact {
  bool negative = false;
  int first = 0, count = 0;
  std::array<std::uint32_t, most_digits> digits{};

  /// Makes the magnitude of two's complement.
  void negate() {
    negative = true;
    std::uint64_t carry = 1;
    for (int d = 0; d < count; ++d) {
      const std::uint64_t sum =
          (~std::uint64_t{digits[static_cast<std::size_t>(d)]} & digit_mask) + carry;
      digits[static_cast<std::size_t>(d)] = static_cast<std::uint32_t>(sum);
      carry = sum >> digit_bits;
    }
  }
};

/// The 64 bits from the highest one on, the position of that one, and whether anything is below.
struct Leading {
  std::uint64_t bits = 0;
  int highest = 0;
  bool rest = false;
};

Leading leading(const Exact& sum) {
  int top = sum.count - 1;
  while (top >= 0 && sum.digits[static_cast<std::size_t>(top)] == 0) --top;
  if (top < 0) return {};
  const auto digit = [&](int d) -> std::uint64_t {
    return d < 0 ? 0 : sum.digits[static_cast<std::size_t>(d)];
  };
  const int width = static_cast<int>(std::bit_width(digit(top)));  // 1 to 32
  Leading lead{.highest = (sum.first + top) * digit_bits + width - 1};
  const std::uint64_t low = digit(top - 2);
  lead.bits = digit(top) << (64 - width) | digit(top - 1) << (32 - width) | low >> width;
  lead.rest = (low & ((std::uint64_t{1} << width) - 1)) != 0;
  for (int d = 0; d < top - 2; ++d) lead.rest = lead.rest || digit(d) != 0;
  return lead;
}

/// The bits of the number of a format that is nearest to a magnitude, of two the even one.
template <class F>
typename F::Bits rounded(const Leading& lead) {
  if (lead.bits == 0) return 0;
  const int exponent = lead.highest - origin;
  const int dropped = 64 - F::precision + std::max(0, F::least_exponent - exponent);
  if (dropped > 64) return 0;
  std::uint64_t kept = dropped == 64 ? 0 : lead.bits >> dropped;
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1),
                      below = dropped == 64 ? lead.bits : lead.bits & (half * 2 - 1);
  if (below > half || (below == half && (lead.rest || (kept & 1) != 0))) ++kept;
  // A carry out of the significand comes to lie in the exponent.
  const auto field = static_cast<std::uint64_t>(std::max(0, exponent - F::least_exponent))
                     << (F::precision - 1);
  const std::uint64_t infinity = std::uint64_t{F::largest_field} << (F::precision - 1);
  return static_cast<typename F::Bits>(std::min(field + kept, infinity));
}

}  // namespace

Accumulator::Accumulator(DataType type, Elements count)
    : type_(type), count_(count), numbers_(count.value() * (is_complex(type) ? 2 : 1)) {
  if (!with_format(type, [](auto) {}))
    throw InvalidArgument(
        fmt::format("an Accumulator of {}: pass f16, bf16, f32, f64, c64 or c128; sums of integers "
                    "are exact anyway",
                    name_of(type)));
}

void Accumulator::check(const char* call, DataType type, Elements count) const {
  if (type != type_ || count != count_)
    throw InvalidArgument(
        fmt::format("Accumulator::{}: an array of {} x {}: this one is for {} x {}", call,
                    count.value(), name_of(type), count_.value(), name_of(type_)));
}

void Accumulator::make_room(int first, int last) {
  if (first > last || numbers_ == 0) return;
  if (planes_.empty()) first_ = first;
  const int lower = std::max(0, first_ - first), higher = std::max(0, last + 1 - (first_ + held()));
  planes_.insert(planes_.begin(), static_cast<std::size_t>(lower) * numbers_, 0);
  planes_.resize(planes_.size() + static_cast<std::size_t>(higher) * numbers_, 0);
  first_ -= lower;
}

void Accumulator::add(DataType type, const void* numbers, Elements count) {
  check("add", type, count);
  if (added_ + 1 > most_added) carry();
  ++added_;
  with_format(type, [&]<class F>(F) {
    bool specials = !specials_.empty();
    const Digits digits = digits_of<F>(numbers, numbers_, specials);
    make_room(digits.first, digits.last);
    if (specials) specials_.resize(3 * numbers_);
    for (std::size_t i = 0; i < numbers_; ++i) {
      const Number number = number_at<F>(numbers, i);
      if (number.nan || number.infinite) {
        ++specials_[(number.nan ? 2U : number.negative ? 1U : 0U) * numbers_ + i];
        continue;
      }
      if (number.magnitude == 0) continue;
      const int shift = number.position % digit_bits;
      const std::uint64_t low = number.magnitude << shift,
                          high = shift == 0 ? 0 : number.magnitude >> (64 - shift);
      std::int64_t digit = static_cast<std::int64_t>(number.position / digit_bits) - first_;
      for (const std::uint64_t part : {low & digit_mask, low >> digit_bits, high}) {
        const auto signed_part = static_cast<std::int64_t>(part);
        if (part != 0)
          planes_[static_cast<std::size_t>(digit) * numbers_ + i] +=
              number.negative ? -signed_part : signed_part;
        ++digit;
      }
    }
  });
}

int Accumulator::held() const {
  return numbers_ == 0 ? 0 : static_cast<int>(planes_.size() / numbers_);
}

/// Leaves no digit that is larger than that of one number. The sums stay the same.
void Accumulator::carry() {
  const auto carry_from = [&](int plane) {
    for (std::size_t i = 0; i < numbers_; ++i) {
      std::int64_t& digit = planes_[static_cast<std::size_t>(plane) * numbers_ + i];
      planes_[static_cast<std::size_t>(plane + 1) * numbers_ + i] += digit >> digit_bits;
      digit &= static_cast<std::int64_t>(digit_mask);
    }
  };
  added_ = 1;
  if (held() == 0) return;
  const int top = held() - 1;
  for (int plane = 0; plane < top; ++plane) carry_from(plane);
  const auto is_large = [](std::int64_t digit) {
    return digit >> (digit_bits - 1) != 0 && digit >> (digit_bits - 1) != -1;
  };
  if (std::none_of(planes_.end() - static_cast<std::ptrdiff_t>(numbers_), planes_.end(), is_large))
    return;
  make_room(first_, first_ + top + 1);
  carry_from(top);
}

void Accumulator::all_reduce(Communicator& world) {
  if (added_ > most_added / world.size()) carry();
  const bool empty = planes_.empty();
  // All ranks need the same planes.
  std::array<std::int64_t, 4> facts{empty ? -most_digits : -first_,
                                    empty ? -1 : first_ + held() - 1, specials_.empty() ? 0 : 1,
                                    added_};
  world.all_reduce(facts, ReduceOp::max);
  make_room(static_cast<int>(-facts[0]), static_cast<int>(facts[1]));
  if (facts[2] != 0) specials_.resize(3 * numbers_);
  if (!planes_.empty()) world.all_reduce(planes_);
  if (!specials_.empty()) world.all_reduce(specials_);
  added_ = facts[3] * world.size();
}

void Accumulator::result(DataType type, void* sums, Elements count) const {
  check("result", type, count);
  with_format(type, [&]<class F>(F) {
    using Bits = typename F::Bits;
    constexpr Bits infinity = static_cast<Bits>(Bits{F::largest_field} << (F::precision - 1)),
                   nan = static_cast<Bits>(infinity | Bits{1} << (F::precision - 2));
    for (std::size_t i = 0; i < numbers_; ++i) {
      Exact exact{.first = first_};
      std::int64_t carried = 0;
      const auto append = [&](std::int64_t digit) {
        exact.digits[static_cast<std::size_t>(exact.count++)] =
            static_cast<std::uint32_t>(static_cast<std::uint64_t>(digit) & digit_mask);
      };
      for (int plane = 0; plane < held(); ++plane) {
        carried += planes_[static_cast<std::size_t>(plane) * numbers_ + i];
        append(carried);
        carried >>= digit_bits;
      }
      append(carried);
      if (carried < 0) exact.negate();
      Bits bits = rounded<F>(leading(exact));
      if (bits != 0 && exact.negative) bits |= F::sign_bit;
      if (!specials_.empty()) {
        const bool up = specials_[i] != 0, down = specials_[numbers_ + i] != 0;
        if (up || down) bits = static_cast<Bits>(infinity | (down ? F::sign_bit : Bits{0}));
        if ((up && down) || specials_[2 * numbers_ + i] != 0) bits = nan;
      }
      std::memcpy(static_cast<std::byte*>(sums) + i * sizeof bits, &bits, sizeof bits);
    }
  });
}

void Accumulator::reset() {
  std::ranges::fill(planes_, 0);
  specials_.clear();
  added_ = 0;
}

}  // namespace capstan
