// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/values/arithmetic.hpp"
#include "capstan/values/reverse_value.hpp"
#include "capstan/values/tensor_math.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

namespace detail {

/// Something that backward() starts before gradients arrive: the collectives of a Sequence.
class BackwardOrder {
 public:
  virtual ~BackwardOrder() = default;
  virtual void begin_backward() = 0;
};

template <class T>
struct DualNode {
  Async<T> value;
  ReverseValue<T> grad{};
  std::vector<std::shared_ptr<DualNode>> operands{};
  std::vector<std::weak_ptr<DualNode>> users{};
  std::shared_ptr<BackwardOrder> order{};
  bool is_constant;

  DualNode(Async<T> given, bool constant) : value(std::move(given)), is_constant(constant) {}
  DualNode(const DualNode&) = delete;
  DualNode& operator=(const DualNode&) = delete;
  /// Long chains of operands must not be destroyed recursively.
  ~DualNode() {
    auto rest = std::move(operands);
    while (!rest.empty()) {
      const auto last = std::move(rest.back());
      rest.pop_back();
      if (last.use_count() == 1)
        rest.insert(rest.end(), std::make_move_iterator(last->operands.begin()),
                    std::make_move_iterator(last->operands.end()));
      if (last.use_count() == 1) last->operands.clear();
    }
  }
};

/// Adds function(gradient, values...) to a gradient. One that nothing was written to is zero.
template <class T, class F, class... Ts>
AsyncTask contribute_task(F function, ReadBuffer<T> later, WriteBuffer<T> out,
                          ReadBuffer<T> gradient, ReadBuffer<Ts>... in) {
  co_await when_all(later, out, gradient, in...);
  const T* const upstream = gradient.find();
  const T* const rest = later.find();
  if (!upstream) {
    if (rest) out.emplace(*rest);
    co_return;
  }
  T mine = function(*upstream, in.get()...);
  out.emplace(rest ? T(*rest + mine) : std::move(mine));
}

template <class T, class F, class... Ts>
void contribute(DualNode<T>& to, const DualNode<T>& of, F function, const Async<Ts>&... in) {
  auto step = to.grad.accumulate();
  schedule(contribute_task<T, F, Ts...>(std::move(function), std::move(step.later),
                                        std::move(step.out), of.grad.result(), in.read()...));
}

template <class T>
  requires std::floating_point<T>
T filled_like(const T&, double value) {
  return static_cast<T>(value);
}

}  // namespace detail

/// A value and its gradient, for differentiation in reverse: T is float, double or Tensor.
///
///   Dual<double> x = 0.5;
///   Dual<double> y = sin(x) * x;
///   y.backward();
///   double slope = x.grad().get_wait();          // dy/dx
///
/// Each operation schedules its value and its part in the gradients of its operands at once; these
/// wait until backward() says what the gradient of the result is. Contributions are added in the
/// reverse order of the operations, always the same, so that gradients are the same bit by bit with
/// any scheduler. A handle: copies mean the same value. One thread at a time may use a graph.
template <class T>
class Dual {
 public:
  Dual(T value) : Dual(Async<T>(std::in_place, std::move(value))) {}
  explicit Dual(Async<T> value) : Dual(std::move(value), false) {}
  /// A value without a gradient, like the data of a training: it may be used in many graphs.
  static Dual constant(T value) { return Dual{Async<T>(std::in_place, std::move(value)), true}; }

  Async<T>& value() { return node_->value; }
  const Async<T>& value() const { return node_->value; }
  /// Reading it closes it: no operation may use this value any more. What does not depend on this
  /// value leaves it unwritten.
  ReverseValue<T>& grad() { return node_->grad; }

  /// Adds ones to the gradient of this value, and closes the gradients of all values that
  /// operations connect with it: they are then computed. Once for a graph.
  void backward() {
    auto step = node_->grad.accumulate();
    schedule(seed(std::move(step.later), std::move(step.out), node_->value.read()));
    for (const auto& node : graph()) {
      if (node->order) node->order->begin_backward();
      node->grad.close();
      node->operands.clear();
      node->users.clear();
    }
  }

  /// For operations of one's own: a value that depends on operands, to whose gradients contribute()
  /// adds function(gradient of the result, values...).
  static Dual result_of(Async<T> value, const std::vector<Dual>& operands) {
    Dual result{std::move(value)};
    for (const Dual& operand : operands) {
      if (operand.node_->is_constant) continue;
      result.node_->operands.push_back(operand.node_);
      operand.node_->users.push_back(result.node_);
    }
    return result;
  }
  template <class F, class... Ts>
  void contribute(const Dual& operand, F function, const Async<Ts>&... in) const {
    if (!operand.node_->is_constant)
      detail::contribute(*operand.node_, *node_, std::move(function), in...);
  }
  detail::DualNode<T>& node() const { return *node_; }

 private:
  static AsyncTask seed(ReadBuffer<T> later, WriteBuffer<T> out, ReadBuffer<T> value) {
    using detail::filled_like;
    co_await when_all(later, out, value);
    const T* const rest = later.find();
    T ones = filled_like(value.get(), 1.0);
    out.emplace(rest ? T(*rest + ones) : std::move(ones));
  }
  Dual(Async<T> value, bool constant)
      : node_(std::make_shared<detail::DualNode<T>>(std::move(value), constant)) {}
  /// Everything that operations connect with this value, each once: this one first, and in the same
  /// order on every rank of a program.
  std::vector<std::shared_ptr<detail::DualNode<T>>> graph() const {
    std::vector<std::shared_ptr<detail::DualNode<T>>> found{node_};
    std::unordered_set<const void*> seen{node_.get()};
    const auto add = [&](std::shared_ptr<detail::DualNode<T>> node) {
      if (node && seen.insert(node.get()).second) found.push_back(std::move(node));
    };
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto node = found[i];
      for (const auto& operand : node->operands) add(operand);
      for (const auto& user : node->users) add(user.lock());
    }
    return found;
  }

  std::shared_ptr<detail::DualNode<T>> node_;
};

template <class T>
Dual<T> operator+(const Dual<T>& a, const Dual<T>& b) {
  auto result = Dual<T>::result_of(a.value() + b.value(), {a, b});
  result.contribute(a, [](const T& g) { return g; });
  result.contribute(b, [](const T& g) { return g; });
  return result;
}
template <class T>
Dual<T> operator-(const Dual<T>& a, const Dual<T>& b) {
  auto result = Dual<T>::result_of(a.value() - b.value(), {a, b});
  result.contribute(a, [](const T& g) { return g; });
  result.contribute(b, [](const T& g) { return T(-g); });
  return result;
}
template <class T>
Dual<T> operator*(const Dual<T>& a, const Dual<T>& b) {
  auto result = Dual<T>::result_of(a.value() * b.value(), {a, b});
  const auto product = [](const T& g, const T& other) { return T(g * other); };
  result.contribute(a, product, b.value());
  result.contribute(b, product, a.value());
  return result;
}
template <class T>
Dual<T> operator/(const Dual<T>& a, const Dual<T>& b) {
  auto result = Dual<T>::result_of(a.value() / b.value(), {a, b});
  result.contribute(a, [](const T& g, const T& y) { return T(g / y); }, b.value());
  result.contribute(
      b, [](const T& g, const T& y, const T& z) { return T(-(g * z / y)); }, b.value(),
      result.value());
  return result;
}
template <class T>
Dual<T> operator-(const Dual<T>& a) {
  auto result = Dual<T>::result_of(-a.value(), {a});
  result.contribute(a, [](const T& g) { return T(-g); });
  return result;
}

// With numbers, which have no gradient.
template <class T>
Dual<T> operator+(const Dual<T>& a, double b) {
  auto result = Dual<T>::result_of(a.value() + b, {a});
  result.contribute(a, [](const T& g) { return g; });
  return result;
}
template <class T>
Dual<T> operator-(const Dual<T>& a, double b) {
  return a + -b;
}
template <class T>
Dual<T> operator*(const Dual<T>& a, double b) {
  auto result = Dual<T>::result_of(a.value() * b, {a});
  result.contribute(a, [b](const T& g) { return T(g * b); });
  return result;
}
template <class T>
Dual<T> operator/(const Dual<T>& a, double b) {
  auto result = Dual<T>::result_of(a.value() / b, {a});
  result.contribute(a, [b](const T& g) { return T(g / b); });
  return result;
}
template <class T>
Dual<T> operator+(double a, const Dual<T>& b) {
  return b + a;
}
template <class T>
Dual<T> operator-(double a, const Dual<T>& b) {
  return -b + a;
}
template <class T>
Dual<T> operator*(double a, const Dual<T>& b) {
  return b * a;
}
template <class T>
Dual<T> operator/(double a, const Dual<T>& b) {
  auto result = Dual<T>::result_of(a / b.value(), {b});
  result.contribute(
      b, [](const T& g, const T& y, const T& z) { return T(-(g * z / y)); }, b.value(),
      result.value());
  return result;
}

namespace detail {

/// A function of one value: `slope(x, f(x))` times the gradient of the result is that of x.
template <class T, class F, class Slope>
Dual<T> elementary(const Dual<T>& x, F function, Slope slope) {
  auto result = Dual<T>::result_of(compute(std::move(function), x.value()), {x});
  result.contribute(
      x, [slope](const T& g, const T& in, const T& out) { return T(g * slope(in, out)); },
      x.value(), result.value());
  return result;
}

}  // namespace detail

template <class T>
Dual<T> exp(const Dual<T>& x) {
  using std::exp;
  return detail::elementary(
      x, [](const T& v) { return T(exp(v)); }, [](const T&, const T& y) { return y; });
}
template <class T>
Dual<T> log(const Dual<T>& x) {
  using std::log;
  return detail::elementary(
      x, [](const T& v) { return T(log(v)); }, [](const T& v, const T&) { return T(1.0 / v); });
}
template <class T>
Dual<T> sin(const Dual<T>& x) {
  using std::cos, std::sin;
  return detail::elementary(
      x, [](const T& v) { return T(sin(v)); }, [](const T& v, const T&) { return T(cos(v)); });
}
template <class T>
Dual<T> cos(const Dual<T>& x) {
  using std::cos, std::sin;
  return detail::elementary(
      x, [](const T& v) { return T(cos(v)); }, [](const T& v, const T&) { return T(-sin(v)); });
}
template <class T>
Dual<T> tan(const Dual<T>& x) {
  using std::tan;
  return detail::elementary(
      x, [](const T& v) { return T(tan(v)); }, [](const T&, const T& y) { return T(y * y + 1.0); });
}
template <class T>
Dual<T> tanh(const Dual<T>& x) {
  using std::tanh;
  return detail::elementary(
      x, [](const T& v) { return T(tanh(v)); },
      [](const T&, const T& y) { return T(1.0 - y * y); });
}
template <class T>
Dual<T> sqrt(const Dual<T>& x) {
  using std::sqrt;
  return detail::elementary(
      x, [](const T& v) { return T(sqrt(v)); }, [](const T&, const T& y) { return T(0.5 / y); });
}
template <class T>
Dual<T> pow(const Dual<T>& x, double exponent) {
  using std::pow;
  return detail::elementary(
      x, [exponent](const T& v) { return T(pow(v, exponent)); },
      [exponent](const T& v, const T&) { return T(exponent * pow(v, exponent - 1)); });
}

inline Dual<Tensor> matmul(const Dual<Tensor>& a, const Dual<Tensor>& b) {
  const auto product = [](const Tensor& x, const Tensor& y) { return capstan::matmul(x, y); };
  auto result = Dual<Tensor>::result_of(compute(product, a.value(), b.value()), {a, b});
  result.contribute(
      a, [](const Tensor& g, const Tensor& y) { return capstan::matmul(g, transpose(y)); },
      b.value());
  result.contribute(
      b, [](const Tensor& g, const Tensor& x) { return capstan::matmul(transpose(x), g); },
      a.value());
  return result;
}
/// All elements added up.
inline Dual<Tensor> sum(const Dual<Tensor>& x) {
  auto result = Dual<Tensor>::result_of(
      compute([](const Tensor& v) { return capstan::sum(v); }, x.value()), {x});
  result.contribute(
      x, [](const Tensor& g, const Tensor& v) { return capstan::filled_like(v, g); }, x.value());
  return result;
}

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
