// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>

#include "kernels/cpu/small_float.hpp"

namespace capstan::perf {
namespace {

template <class T>
inline constexpr bool is_pair = false;
template <class T>
inline constexpr bool is_pair<std::complex<T>> = true;

/// Test data have equal real and imaginary parts, or no imaginary part where `real_only`. Any other
/// complex number becomes NaN, so that it never compares equal.
template <class T>
double to_double(T value, bool real_only) {
  if constexpr (kernels::IsSmallFloat<T>)
    return kernels::to_float(value);
  else if constexpr (is_pair<T>)
    return value.imag() == (real_only ? 0 : value.real()) ? value.real() : NAN;
  else
    return static_cast<double>(value);
}

/// The conversion is exact, as test data are small whole numbers.
template <class T>
T from_double(double value, bool real_only) {
  if constexpr (kernels::IsSmallFloat<T>)
    return kernels::from_float<T>(static_cast<float>(value));
  else if constexpr (is_pair<T>)
    return {static_cast<typename T::value_type>(value),
            static_cast<typename T::value_type>(real_only ? 0 : value)};
  else
    return static_cast<T>(value);
}

/// Calls `visit` with a value of the C++ type that `type` stands for.
template <class Visit>
auto with_type(DataType type, Visit visit) {
  switch (type) {
    case DataType::i8:
      return visit(std::int8_t{});
    case DataType::u8:
      return visit(std::uint8_t{});
    case DataType::i32:
      return visit(std::int32_t{});
    case DataType::u32:
      return visit(std::uint32_t{});
    case DataType::i64:
      return visit(std::int64_t{});
    case DataType::u64:
      return visit(std::uint64_t{});
    case DataType::f16:
      return visit(Float16{});
    case DataType::bf16:
      return visit(BFloat16{});
    case DataType::f32:
      return visit(float{});
    case DataType::f8_e4m3:
      return visit(Float8E4M3{});
    case DataType::f8_e5m2:
      return visit(Float8E5M2{});
    case DataType::c64:
      return visit(std::complex<float>{});
    case DataType::c128:
      return visit(std::complex<double>{});
    case DataType::f64:
      break;
  }
  return visit(double{});
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::bit_and:
      return static_cast<double>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
    case ReduceOp::bit_or:
      return static_cast<double>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
    case ReduceOp::bit_xor:
      return static_cast<double>(static_cast<unsigned>(a) ^ static_cast<unsigned>(b));
    case ReduceOp::logical_and:
      return a != 0 && b != 0 ? 1 : 0;
    case ReduceOp::logical_or:
      return a != 0 || b != 0 ? 1 : 0;
    case ReduceOp::logical_xor:
      return (a != 0) != (b != 0) ? 1 : 0;
    case ReduceOp::sum:
    case ReduceOp::average:
      break;
  }
  return a + b;
}

}  // namespace

TestData::TestData(DataType type, ReduceOp op, const Contract& contract, int ranks)
    : type_(type), op_(op), contract_(contract), ranks_(ranks) {}

double TestData::value(int rank, std::size_t index) const {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(rank) * period + index % period + 1) * 0x9e3779b97f4a7c15;
  const bool tiny = size_of(type_) == Bytes{1} && !is_integer(type_);  // whole numbers up to 8
  if (!reduces(contract_.collective())) return static_cast<double>(mixed >> (tiny ? 61 : 57));
  const auto small = static_cast<double>(mixed >> 61);
  if (tiny && op_ != ReduceOp::product) return rank < 8 ? static_cast<double>(mixed >> 63) : 0;
  if (op_ == ReduceOp::product) return rank < 3 ? 1 + static_cast<double>(mixed >> 63) : 1;
  return ranks_ > 16 ? std::floor(small / 4) : small;  // sums stay exact in 8 bits
}

TestData::Pattern TestData::expected(const Contract::Promise& promise) const {
  Pattern pattern;
  const bool whole = is_integer(type_),
             divide = reduces(contract_.collective()) && op_ == ReduceOp::average;
  const bool logical = reduces(contract_.collective()) && op_ >= ReduceOp::logical_and;
  for (std::size_t i = 0; i < period; ++i) {
    double result = value(promise.first, i);
    if (logical && promise.last > promise.first) result = result != 0 ? 1 : 0;
    for (int rank = promise.first + 1; rank <= promise.last; ++rank)
      result = combine(op_, result, value(rank, i));
    if (divide) result /= ranks_;
    pattern.push_back(divide && whole ? std::trunc(result) : result);
  }
  return pattern;
}

void TestData::fill(void* input, int rank) const {
  const std::size_t count = contract_.lengths(rank).input.value();
  with_type(type_, [&]<class T>(T) {
    T pattern[period];
    for (std::size_t i = 0; i < period; ++i)
      pattern[i] = from_double<T>(value(rank, i), real_only());
    for (std::size_t i = 0; i < count; ++i) static_cast<T*>(input)[i] = pattern[i % period];
  });
}

std::uint64_t TestData::count_wrong(const void* output, int rank) const {
  const auto blocks = contract_.output_blocks(rank);
  const Range whole{Elements{0}, contract_.lengths(rank).output};
  std::uint64_t wrong = 0;
  for (int i = 0; i < (blocks ? blocks->size() : 1); ++i) {
    const Range range = blocks && !whole.empty() ? (*blocks)[i] : whole;
    if (!range.empty()) wrong += count_wrong(output, range, contract_.promise(rank, range.offset));
  }
  return wrong;
}

/// Counts the elements of a range that break a promise: element i belongs to index
/// `promise.index + i`.
std::uint64_t TestData::count_wrong(const void* output, Range range,
                                    Contract::Promise promise) const {
  if (promise.last < promise.first) return 0;
  const Pattern pattern = expected(promise);
  const bool divided = reduces(contract_.collective()) && op_ == ReduceOp::average;
  // Only an average can fall between two values of the type.
  const double tolerance = !divided                                            ? 0
                           : size_of(type_) == Bytes{1}                        ? 1.0 / 8
                           : type_ == DataType::f16 || type_ == DataType::bf16 ? 1.0 / 128
                                                                               : 1e-6;
  return with_type(type_, [&]<class T>(T) {
    const T* values = static_cast<const T*>(output) + range.offset.value();
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < range.length.value(); ++i) {
      const double wanted = pattern[(promise.index.value() + i) % period];
      wrong +=
          !(std::abs(to_double(values[i], real_only()) - wanted) <= tolerance * std::abs(wanted));
    }
    return wrong;
  });
}

void TestData::spoil(void* memory, Elements count) const {
  std::memset(memory, 0xa5, bytes_of(count, size_of(type_)).value());
}

}  // namespace capstan::perf
