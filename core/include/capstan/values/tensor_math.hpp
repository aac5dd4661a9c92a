// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/export.hpp"
#include "capstan/owning_tensor.hpp"

namespace CAPSTAN_EXPORT capstan {

// Arithmetic of tensors of f32 and f64, element by element, for values::Async and values::Dual.
// Both operands have one type and shape; a number stands for a tensor of it. Other types, and
// shapes that do not fit, are an InvalidArgument that shows both. Elements are computed in their
// own type, sums in the order of elements, so that results are the same bit by bit wherever they
// are computed by the same build.

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);
Tensor operator-(const Tensor& a);

template <class Operand>
Tensor& operator+=(Tensor& a, const Operand& b) {
  return a = a + b;
}
template <class Operand>
Tensor& operator-=(Tensor& a, const Operand& b) {
  return a = a - b;
}
template <class Operand>
Tensor& operator*=(Tensor& a, const Operand& b) {
  return a = a * b;
}
template <class Operand>
Tensor& operator/=(Tensor& a, const Operand& b) {
  return a = a / b;
}

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);

/// [m, k] times [k, n] is [m, n].
Tensor matmul(const Tensor& a, const Tensor& b);
/// [m, n] to [n, m].
Tensor transpose(const Tensor& a);
/// All elements added up, a tensor without dimensions.
Tensor sum(const Tensor& x);
/// A tensor of this type and shape with `value`, which has one element, everywhere.
Tensor filled_like(const Tensor& shape, const Tensor& value);
Tensor filled_like(const Tensor& shape, double value);

/// The only element of a tensor of one, as a number.
double to_number(const Tensor& x);

}  // namespace CAPSTAN_EXPORT capstan
