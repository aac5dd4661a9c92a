// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/tensor_math.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace capstan {
namespace {

[[noreturn]] void refuse(const char* what, const Tensor& a, const Tensor& b) {
  throw InvalidArgument(
      fmt::format("{} of {} and {}: shapes have to fit, and types have to be the same, f32 or f64",
                  what, to_string(a), to_string(b)));
}

/// Calls function.operator()<T>() for the element type.
template <class F>
auto with_type(const Tensor& tensor, F function) {
  if (tensor.type() == DataType::f32) return function.template operator()<float>();
  if (tensor.type() == DataType::f64) return function.template operator()<double>();
  throw InvalidArgument(
      fmt::format("arithmetic on {}: tensors of f32 and f64 have it, convert others before",
                  to_string(tensor)));
}

template <class F>
Tensor map(const Tensor& x, F function) {
  return with_type(x, [&]<class T>() {
    Tensor result{x.type(), x.shape()};
    const auto in = x.elements<T>();
    const auto out = result.elements<T>();
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<T>(function(in[i]));
    return result;
  });
}

template <class F>
Tensor combine(const char* what, const Tensor& a, const Tensor& b, F function) {
  if (a.type() != b.type() || a.shape() != b.shape()) refuse(what, a, b);
  return with_type(a, [&]<class T>() {
    Tensor result{a.type(), a.shape()};
    const auto x = a.elements<T>();
    const auto y = b.elements<T>();
    const auto out = result.elements<T>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = function(x[i], y[i]);
    return result;
  });
}

/// With a number of the tensor's type.
template <class F>
Tensor combine(const Tensor& a, double number, F function) {
  return map(a, [&]<class T>(T x) { return function(x, static_cast<T>(number)); });
}
template <class F>
Tensor combine(double number, const Tensor& b, F function) {
  return map(b, [&]<class T>(T y) { return function(static_cast<T>(number), y); });
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  return combine("the sum", a, b, std::plus<>{});
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return combine("the difference", a, b, std::minus<>{});
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return combine("the product", a, b, std::multiplies<>{});
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return combine("the quotient", a, b, std::divides<>{});
}
Tensor operator+(const Tensor& a, double b) {
  return combine(a, b, std::plus<>{});
}
Tensor operator-(const Tensor& a, double b) {
  return combine(a, b, std::minus<>{});
}
Tensor operator*(const Tensor& a, double b) {
  return combine(a, b, std::multiplies<>{});
}
Tensor operator/(const Tensor& a, double b) {
  return combine(a, b, std::divides<>{});
}
Tensor operator+(double a, const Tensor& b) {
  return combine(a, b, std::plus<>{});
}
Tensor operator-(double a, const Tensor& b) {
  return combine(a, b, std::minus<>{});
}
Tensor operator*(double a, const Tensor& b) {
  return combine(a, b, std::multiplies<>{});
}
Tensor operator/(double a, const Tensor& b) {
  return combine(a, b, std::divides<>{});
}
Tensor operator-(const Tensor& a) {
  return map(a, std::negate<>{});
}

Tensor exp(const Tensor& x) {
  return map(x, [](auto value) { return std::exp(value); });
}
Tensor log(const Tensor& x) {
  return map(x, [](auto value) { return std::log(value); });
}
Tensor sin(const Tensor& x) {
  return map(x, [](auto value) { return std::sin(value); });
}
Tensor cos(const Tensor& x) {
  return map(x, [](auto value) { return std::cos(value); });
}
Tensor tan(const Tensor& x) {
  return map(x, [](auto value) { return std::tan(value); });
}
Tensor tanh(const Tensor& x) {
  return map(x, [](auto value) { return std::tanh(value); });
}
Tensor sqrt(const Tensor& x) {
  return map(x, [](auto value) { return std::sqrt(value); });
}
Tensor pow(const Tensor& x, double exponent) {
  return map(x, [exponent](auto value) { return std::pow(value, exponent); });
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.shape().size() != 2 || b.shape().size() != 2 ||
      a.shape()[1] != b.shape()[0])
    refuse("the matrix product", a, b);
  return with_type(a, [&]<class T>() {
    Tensor result{a.type(), {a.shape()[0], b.shape()[1]}};
    const auto rows = static_cast<std::size_t>(a.shape()[0]);
    const auto inner = static_cast<std::size_t>(a.shape()[1]);
    const auto columns = static_cast<std::size_t>(b.shape()[1]);
    const auto x = a.elements<T>();
    const auto y = b.elements<T>();
    const auto out = result.elements<T>();
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < inner; ++k)
        for (std::size_t j = 0; j < columns; ++j)
          out[i * columns + j] += x[i * inner + k] * y[k * columns + j];
    return result;
  });
}

Tensor transpose(const Tensor& a) {
  if (a.shape().size() != 2)
    throw InvalidArgument(fmt::format("the transpose of {}: give a matrix", to_string(a)));
  TensorView turned = a.view();
  turned.shape = {a.shape()[1], a.shape()[0]};
  turned.strides = {1, a.shape()[1]};
  return Tensor{turned};
}

Tensor sum(const Tensor& x) {
  return with_type(x, [&]<class T>() {
    Tensor result{x.type(), {}};
    for (const T value : x.elements<T>()) result.elements<T>()[0] += value;
    return result;
  });
}

Tensor filled_like(const Tensor& shape, const Tensor& value) {
  if (value.type() != shape.type() || value.count() != Elements{1})
    refuse("a tensor filled", shape, value);
  return with_type(shape, [&]<class T>() {
    Tensor result{shape.type(), shape.shape()};
    std::ranges::fill(result.elements<T>(), value.elements<T>()[0]);
    return result;
  });
}

Tensor filled_like(const Tensor& shape, double value) {
  return with_type(shape, [&]<class T>() {
    Tensor result{shape.type(), shape.shape()};
    std::ranges::fill(result.elements<T>(), static_cast<T>(value));
    return result;
  });
}

double to_number(const Tensor& x) {
  if (x.count() != Elements{1})
    throw InvalidArgument(
        fmt::format("{} is not one number: take a tensor of one element", to_string(x)));
  return with_type(x, [&]<class T>() { return static_cast<double>(x.elements<T>()[0]); });
}

}  // namespace capstan
