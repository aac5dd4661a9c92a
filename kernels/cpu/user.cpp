// SPDX-License-Identifier: Apache-2.0

// Operations that the user has defined, and the scaling of inputs.
#include <algorithm>
#include <complex>
#include <cstring>

#include "capstan/error.hpp"
#include "kernels/cpu/reduce.hpp"
#include "kernels/cpu/small_float.hpp"

namespace capstan::kernels {
namespace {

/// Reduces piece by piece, so that accumulators stay in the cache and every source is read once. A
/// destination may be any source, as each piece is written after all sources of it were read.
void reduce_by_user(const Reduction& r) {
  constexpr std::size_t most_bytes = 4096;
  alignas(64) std::byte accumulator[most_bytes];
  const auto& user = *static_cast<const UserReduction*>(r.context);
  const std::size_t piece = most_bytes / user.element_bytes;
  for (std::size_t first = 0; first < r.element_count; first += piece) {
    const std::size_t count = std::min(piece, r.element_count - first);
    const std::size_t offset = first * user.element_bytes, bytes = count * user.element_bytes;
    const auto at = [&](const void* memory) {
      return static_cast<const std::byte*>(memory) + offset;
    };
    std::memcpy(accumulator, at(r.sources[0]), bytes);
    for (std::size_t s = 1; s < r.source_count; ++s)
      user.accumulate(user.state, accumulator, at(r.sources[s]), count);
    std::memcpy(static_cast<std::byte*>(r.destination) + offset, accumulator, bytes);
    if (r.second_destination)
      std::memcpy(static_cast<std::byte*>(r.second_destination) + offset, accumulator, bytes);
    for (std::size_t k = 0; k < r.further_count; ++k)
      std::memcpy(static_cast<std::byte*>(r.further[k]) + offset, accumulator, bytes);
  }
}

template <class T>
T scaled(T value, double factor) {
  if constexpr (IsSmallFloat<T>) {
    return from_float<T>(to_float(value) * static_cast<float>(factor));
  } else if constexpr (std::is_integral_v<T>) {
    const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(factor));
    return static_cast<T>(static_cast<std::uint64_t>(value) * whole);
  } else if constexpr (std::is_floating_point_v<T>) {
    return value * static_cast<T>(factor);
  } else {
    return value * static_cast<typename T::value_type>(factor);
  }
}

template <class T>
void scale(void* destination, const void* source, std::size_t count, double factor) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<T*>(destination)[i] = scaled(static_cast<const T*>(source)[i], factor);
}

}  // namespace

ReduceKernel user_kernel() {
  return &reduce_by_user;
}

ScaleKernel scale_kernel(DataType type) {
  switch (type) {
    case DataType::i8:
      return scale<std::int8_t>;
    case DataType::u8:
      return scale<std::uint8_t>;
    case DataType::i32:
      return scale<std::int32_t>;
    case DataType::u32:
      return scale<std::uint32_t>;
    case DataType::i64:
      return scale<std::int64_t>;
    case DataType::u64:
      return scale<std::uint64_t>;
    case DataType::f16:
      return scale<Float16>;
    case DataType::bf16:
      return scale<BFloat16>;
    case DataType::f32:
      return scale<float>;
    case DataType::f64:
      return scale<double>;
    case DataType::f8_e4m3:
      return scale<Float8E4M3>;
    case DataType::f8_e5m2:
      return scale<Float8E5M2>;
    case DataType::c64:
      return scale<std::complex<float>>;
    case DataType::c128:
      return scale<std::complex<double>>;
  }
  throw InvalidArgument("scale_kernel: not a data type");
}

}  // namespace capstan::kernels
