// SPDX-License-Identifier: Apache-2.0

// The kernels of complex numbers. Sums and averages are those of twice as many real numbers.
#include <complex>
#include <limits>

#include "kernels/cpu/composed.hpp"

namespace capstan::kernels {
namespace {

template <DataType real, ReduceOp op>
void reduce_parts(const Reduction& r) {
  static const ReduceKernel kernel = reduce_kernel(real, op);
  Reduction parts = r;
  parts.element_count *= 2;
  parts.following *= 2;
  kernel(parts);
}

/// All NaNs become the canonical NaN of the type, as in all kernels.
template <class T>
T canonical(T value) {
  return value == value ? value : std::numeric_limits<T>::quiet_NaN();
}

/// Left to right, (a + bi)(c + di) = (ac - bd) + (ad + bc)i, without the special cases of C's Annex
/// G.
template <class T>
void product(const Reduction& r) {
  using Complex = std::complex<T>;
  const auto source = [&](std::size_t s, std::size_t i) {
    return static_cast<const Complex*>(r.sources[s])[i];
  };
  for (std::size_t i = 0; i < r.element_count; ++i) {
    Complex value = source(0, i);
    for (std::size_t s = 1; s < r.source_count; ++s) {
      const Complex next = source(s, i);
      value = {value.real() * next.real() - value.imag() * next.imag(),
               value.real() * next.imag() + value.imag() * next.real()};
    }
    if (r.source_count > 1) value = {canonical(value.real()), canonical(value.imag())};
    static_cast<Complex*>(r.destination)[i] = value;
    if (r.second_destination) static_cast<Complex*>(r.second_destination)[i] = value;
    for (std::size_t k = 0; k < r.further_count; ++k)
      static_cast<Complex*>(r.further[k])[i] = value;
  }
}

template <DataType real, class T>
ReduceKernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce_parts<real, ReduceOp::sum>;
    case ReduceOp::average:
      return reduce_parts<real, ReduceOp::average>;
    case ReduceOp::product:
      return product<T>;
    default:
      return nullptr;
  }
}

}  // namespace

ReduceKernel find_complex_kernel(DataType type, ReduceOp op) {
  return type == DataType::c64 ? kernel_of<DataType::f32, float>(op)
                               : kernel_of<DataType::f64, double>(op);
}

}  // namespace capstan::kernels
