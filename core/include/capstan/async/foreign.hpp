// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "capstan/export.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// An operation of another library (a request of MPI, an event of CUDA), or of the program, that a
/// Work stands for. advance(), cancel() and result() are called by one thread at a time.
class ForeignOperation {
 public:
  /// When the last handle goes before the end, the object goes with it: the destructor sees to
  /// what is pending.
  virtual ~ForeignOperation() = default;

  /// For errors: "MPI_Iallreduce of 1000 floats".
  virtual std::string describe() const = 0;
  /// Moves it on without waiting; true when it has completed. What it throws is the operation's
  /// error. Not called again after either.
  virtual bool advance() = 0;
  /// Sleeps until it may have moved, for `at_most` at the longest. Several threads may call it,
  /// also beside advance().
  virtual void sleep(std::chrono::nanoseconds at_most);
  /// True: it will touch no buffer any more, and does not continue.
  virtual bool cancel() { return false; }
  /// The memory with the result, after the end.
  virtual std::optional<Operation::Output> result() { return std::nullopt; }
};

/// A handle on a foreign operation, for waits, queues, wait_any, events and coroutines. It moves on
/// while a thread waits for it; from ensure_progress() on (futures, events and within() call it) a
/// thread of the library asks for it every millisecond. Throws InvalidArgument for a null pointer.
[[nodiscard]] Work work_from(std::unique_ptr<ForeignOperation> operation);

namespace detail {

/// The memory of a value of the program, if it consists of elements.
template <class T>
std::optional<Operation::Output> memory_of(const T& value) {
  if constexpr (Element<T>) {
    return Operation::Output{*data_type_of<T>, const_cast<T*>(&value), 1};
  } else if constexpr (std::ranges::contiguous_range<const T>) {
    using E = std::ranges::range_value_t<const T>;
    if constexpr (Element<E>)
      return Operation::Output{*data_type_of<E>, const_cast<E*>(std::ranges::data(value)),
                               std::ranges::size(value)};
  }
  return std::nullopt;
}

template <class T>
class FutureOperation final : public ForeignOperation {
 public:
  FutureOperation(std::shared_future<T> future, std::string name, std::stop_source stop)
      : future_(std::move(future)), name_(std::move(name)), stop_(std::move(stop)) {}

  std::string describe() const override { return name_; }
  bool advance() override {
    if (future_.wait_for(std::chrono::seconds{0}) == std::future_status::timeout) return false;
    (void)future_.get();
    return true;
  }
  void sleep(std::chrono::nanoseconds at_most) override { (void)future_.wait_for(at_most); }
  bool cancel() override {
    stop_.request_stop();  // the function continues until it has seen it
    return false;
  }
  std::optional<Operation::Output> result() override {
    if constexpr (std::is_void_v<T>)
      return std::nullopt;
    else
      return memory_of(future_.get());
  }

 private:
  std::shared_future<T> future_;
  std::string name_;
  std::stop_source stop_;
};

/// Runs a function on a thread of its own. Throws SystemError if there can be none.
void run_on_thread(std::function<void()> function);

}  // namespace detail

/// A handle on a future. Work::result() gives its value, if that is an element or a contiguous
/// range of elements (a vector, a span); it lives as long as a handle does. cancel() is refused.
/// The first wait runs what std::async has deferred.
template <class T>
[[nodiscard]] Work work_from(std::future<T> future, std::string name = "a future") {
  if (!future.valid()) return work_from(std::unique_ptr<ForeignOperation>{});
  return work_from(std::unique_ptr<ForeignOperation>(std::make_unique<detail::FutureOperation<T>>(
      future.share(), std::move(name), std::stop_source{std::nostopstate})));
}

/// Runs `function` on a thread of its own; the handle is as for a future. A function that takes a
/// std::stop_token may end early when cancel() or withdraw() asks for it; its buffers are free when
/// it has ended, as withdraw() waits for.
template <class F>
  requires(std::invocable<F&> || std::invocable<F&, std::stop_token>)
[[nodiscard]] Work work_from(F function, std::string name = "a function") {
  // By a function, as g++ 12 with -Og takes a plain local for uninitialized.
  std::stop_source stop = [] { return std::stop_source{}; }();
  auto call = [f = std::move(function), token = stop.get_token()]() mutable {
    if constexpr (std::invocable<F&, std::stop_token>)
      return std::invoke(f, token);
    else
      return std::invoke(f);
  };
  using Result = std::invoke_result_t<decltype(call)&>;
  const auto task = std::make_shared<std::packaged_task<Result()>>(std::move(call));
  Work work =
      work_from(std::unique_ptr<ForeignOperation>(std::make_unique<detail::FutureOperation<Result>>(
          task->get_future().share(), std::move(name), std::move(stop))));
  detail::run_on_thread([task] { (*task)(); });
  return work;
}

}  // namespace CAPSTAN_EXPORT capstan
