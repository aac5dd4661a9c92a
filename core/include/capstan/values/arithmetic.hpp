// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "capstan/export.hpp"
#include "capstan/values/async.hpp"
#include "capstan/values/when_all.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

namespace detail {

template <class T>
inline constexpr bool is_async = false;
template <class T>
inline constexpr bool is_async<Async<T>> = true;

template <class R, class F, class... Ts>
AsyncTask apply_task(F function, EmplaceBuffer<R> out, ReadBuffer<Ts>... in) {
  co_await when_all(in...);
  co_await std::move(out)(std::invoke(function, in.get()...));
}

template <class T, class F, class... Ts>
AsyncTask update_task(F function, MutableBuffer<T> target, ReadBuffer<Ts>... in) {
  co_await when_all(target, in...);
  std::invoke(function, target.get(), in.get()...);
}

}  // namespace detail

/// Something that is no Async, to calculate with.
template <class U>
concept PlainOperand = !detail::is_async<std::remove_cvref_t<U>>;

/// Schedules function(values...) and gives its result. The function is called once, by any thread
/// that runs tasks.
template <class F, class... Ts>
auto compute(F function, const Async<Ts>&... in) {
  using Result = std::remove_cvref_t<std::invoke_result_t<F&, const Ts&...>>;
  Async<Result> result;
  schedule(
      detail::apply_task<Result, F, Ts...>(std::move(function), result.emplace(), in.read()...));
  return result;
}

/// Schedules function(target, values...), which changes the target. The values may include the
/// target, which is then as it was before.
template <class F, class T, class... Ts>
void update(F function, Async<T>& target, const Async<Ts>&... in) {
  [[maybe_unused]] const auto is_target = [&](const auto& value) {
    return static_cast<const void*>(&value) == &target;
  };
  if ((is_target(in) || ...)) {
    // To read and to change it in one task would be to wait for oneself.
    auto changed = compute(
        [function = std::move(function)](T copy, const Ts&... values) mutable {
          std::invoke(function, copy, values...);
          return copy;
        },
        std::as_const(target), in...);
    schedule(detail::copy_task(changed.read(), target.emplace()));
    return;
  }
  schedule(detail::update_task<T, F, Ts...>(std::move(function), target.mutate(), in.read()...));
}

// Arithmetic schedules itself: Async<double> z = (x + y) * 2.0; z += x;
// Operands are Async values or plain ones, which are copied.

#define CAPSTAN_ASYNC_OPERATOR(op)                                        \
  template <class T, class U>                                             \
  auto operator op(const Async<T>& a, const Async<U>& b) {                \
    return compute([](const T& x, const U& y) { return x op y; }, a, b);  \
  }                                                                       \
  template <class T, PlainOperand U>                                      \
  auto operator op(const Async<T>& a, U b) {                              \
    return compute([b = std::move(b)](const T& x) { return x op b; }, a); \
  }                                                                       \
  template <PlainOperand T, class U>                                      \
  auto operator op(T a, const Async<U>& b) {                              \
    return compute([a = std::move(a)](const U& y) { return a op y; }, b); \
  }                                                                       \
  template <class T, class U>                                             \
  Async<T>& operator op##=(Async<T>& a, const Async<U>& b) {              \
    update([](T& x, const U& y) { x op## = y; }, a, b);                   \
    return a;                                                             \
  }                                                                       \
  template <class T, PlainOperand U>                                      \
  Async<T>& operator op##=(Async<T>& a, U b) {                            \
    update([b = std::move(b)](T& x) { x op## = b; }, a);                  \
    return a;                                                             \
  }

CAPSTAN_ASYNC_OPERATOR(+)
CAPSTAN_ASYNC_OPERATOR(-)
CAPSTAN_ASYNC_OPERATOR(*)
CAPSTAN_ASYNC_OPERATOR(/)
#undef CAPSTAN_ASYNC_OPERATOR

template <class T>
auto operator-(const Async<T>& a) {
  return compute([](const T& x) { return -x; }, a);
}

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
