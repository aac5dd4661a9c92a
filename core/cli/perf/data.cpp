#include "core/cli/perf/data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace capstan::cli {
namespace {

double to_double(Float16 half) {
  const int exponent = half.bits >> 10 & 31, mantissa = half.bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                           : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
  return half.bits >> 15 ? -magnitude : magnitude;
}
double to_double(BFloat16 brain) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(brain.bits) << 16);
}
template <class T>
double to_double(T value) {
  return static_cast<double>(value);
}

/// Exact for the whole numbers below 256 that the test data consist of.
template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16)};
  } else if constexpr (std::is_same_v<T, Float16>) {
    if (value == 0) return {0};
    const int exponent = std::ilogb(value);
    const auto mantissa = static_cast<unsigned>(std::ldexp(value, 10 - exponent)) & 1023u;
    return {static_cast<std::uint16_t>(static_cast<unsigned>(exponent + 15) << 10 | mantissa)};
  } else {
    return static_cast<T>(value);
  }
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
    case DataType::f64:
      break;
  }
  return visit(double{});
}

}  // namespace

TestData::TestData(DataType type, ReduceOp op, int ranks) : type_(type), op_(op), ranks_(ranks) {
  for (std::size_t i = 0; i < period; ++i) expected_.push_back(reduced(i));
}

double TestData::value(int rank, std::size_t index) const {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(rank) * period + index % period + 1) * 0x9e3779b97f4a7c15;
  const auto small = static_cast<double>(mixed >> 61);
  if (op_ == ReduceOp::product) return rank < 3 ? 1 + static_cast<double>(mixed >> 63) : 1;
  return ranks_ > 16 ? std::floor(small / 4) : small;  // sums stay exact in 8 bits
}

double TestData::reduced(std::size_t index) const {
  double result = value(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double next = value(rank, index);
    switch (op_) {
      case ReduceOp::sum:
      case ReduceOp::average:
        result += next;
        break;
      case ReduceOp::product:
        result *= next;
        break;
      case ReduceOp::min:
        result = std::min(result, next);
        break;
      case ReduceOp::max:
        result = std::max(result, next);
        break;
    }
  }
  if (op_ != ReduceOp::average) return result;
  const bool whole = type_ < DataType::f16;
  return whole ? std::trunc(result / ranks_) : result / ranks_;
}

void TestData::fill(void* memory, std::size_t count, int rank) const {
  with_type(type_, [&]<class T>(T) {
    T pattern[period];
    for (std::size_t i = 0; i < period; ++i) pattern[i] = from_double<T>(value(rank, i));
    for (std::size_t i = 0; i < count; ++i) static_cast<T*>(memory)[i] = pattern[i % period];
  });
}

std::uint64_t TestData::count_wrong(const void* memory, std::size_t count) const {
  // Only an average can fall between two values of the type.
  const double tolerance = op_ != ReduceOp::average                            ? 0
                           : type_ == DataType::f16 || type_ == DataType::bf16 ? 1.0 / 128
                                                                               : 1e-6;
  return with_type(type_, [&]<class T>(T) {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double expected = expected_[i % period];
      const double actual = to_double(static_cast<const T*>(memory)[i]);
      wrong += !(std::abs(actual - expected) <= tolerance * std::abs(expected));
    }
    return wrong;
  });
}

void TestData::spoil(void* memory, std::size_t count) const {
  std::memset(memory, 0xa5, count * size_of(type_).value());
}

}  // namespace capstan::cli
