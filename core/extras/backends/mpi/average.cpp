// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/mpi/average.hpp"

namespace capstan {
namespace {

template <class T, class Divisor>
void divide_as(void* sums, Elements count, Divisor divisor) {
  T* const elements = static_cast<T*>(sums);
  for (std::uint64_t i = 0; i < count.value(); ++i)
    elements[i] = static_cast<T>(elements[i] / divisor);
}

}  // namespace

void divide(DataType type, void* sums, Elements count, int divisor) {
  using enum DataType;
  switch (type) {
    case i8:
      return divide_as<std::int8_t>(sums, count, divisor);
    case u8:
      return divide_as<std::uint8_t>(sums, count, divisor);
    case i32:
      return divide_as<std::int32_t>(sums, count, divisor);
    case u32:
      return divide_as<std::uint32_t>(sums, count, static_cast<std::uint32_t>(divisor));
    case i64:
      return divide_as<std::int64_t>(sums, count, divisor);
    case u64:
      return divide_as<std::uint64_t>(sums, count, static_cast<std::uint64_t>(divisor));
    case f32:
      return divide_as<float>(sums, count, static_cast<float>(divisor));
    case f64:
      return divide_as<double>(sums, count, static_cast<double>(divisor));
    case c64:
      return divide_as<std::complex<float>>(sums, count, static_cast<float>(divisor));
    case c128:
      return divide_as<std::complex<double>>(sums, count, static_cast<double>(divisor));
    default:
      return;  // MPI adds up no other types
  }
}

}  // namespace capstan
