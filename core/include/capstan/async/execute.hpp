// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A function that starts an operation.
template <class F>
concept StartsOperation = std::invocable<F&> && std::same_as<std::invoke_result_t<F&>, Work>;

/// Operations that have been started together.
struct StartedTogether {
  Work all;                ///< ends when each of them has ended, as finish_all() does
  std::vector<Work> each;  ///< in the order of their starts
};

/// Waits for operations that belong together, with one time limit for all. When the time is up, a
/// stop is requested or one of the operations fails, the others are cancelled. Throws
/// DeadlineExceeded (with the time limit and the operations that were pending), Cancelled, or
/// OperationFailed with the cause; a stop request is seen within 20 ms.
void finish_all(std::span<const Work> works, TimeLimit limit = {},
                const std::stop_token& stop = {});

/// The same, and returns at once: a handle on all of them, which throws like finish_all(). The
/// limit counts from here on. They move on while nobody waits (progress threads are started). The
/// result of a single operation is that of the handle. Throws InvalidArgument for an empty Work.
[[nodiscard]] Work together(std::vector<Work> works, TimeLimit limit = {},
                            const std::stop_token& stop = {});

namespace detail {

/// Cancels these operations and throws OperationFailed with the current exception.
[[noreturn]] void give_up(std::span<const Work> works);

/// Starts all operations, or none that continues.
template <std::ranges::input_range Starts>
std::vector<Work> start_all(Starts&& starts) {
  std::vector<Work> works;
  try {
    for (auto&& start : starts) works.push_back(std::invoke(start));
  } catch (...) {
    give_up(works);
  }
  return works;
}

}  // namespace detail

/// Starts all operations and returns at once; see together(). Throws OperationFailed when one
/// cannot be started; the others are cancelled then.
template <std::ranges::input_range Starts>
  requires StartsOperation<std::ranges::range_reference_t<Starts>>
[[nodiscard]] StartedTogether execute_all_async(Starts&& starts, TimeLimit limit = {},
                                                const std::stop_token& stop = {}) {
  StartedTogether started{{}, detail::start_all(starts)};
  started.all = together(started.each, limit, stop);
  return started;
}

/// Starts one operation and returns at once. The handle, for waits, co_await, future() and
/// result(), throws like finish_all().
template <StartsOperation Start>
[[nodiscard]] Work execute_async(Start start, TimeLimit limit = {},
                                 const std::stop_token& stop = {}) {
  return execute_all_async(std::span{&start, 1}, limit, stop).all;
}

/// Starts all operations, then waits like finish_all(). Returns the operations in order. Throws
/// OperationFailed also when one cannot be started.
template <std::ranges::input_range Starts>
  requires StartsOperation<std::ranges::range_reference_t<Starts>>
std::vector<Work> execute_all(Starts&& starts, TimeLimit limit = {},
                              const std::stop_token& stop = {}) {
  auto works = detail::start_all(starts);
  finish_all(works, limit, stop);
  return works;
}

/// Starts one operation and waits until it has completed. Returns the operation, for its result.
/// Throws like execute_all().
template <StartsOperation Start>
Work execute(Start start, TimeLimit limit = {}, const std::stop_token& stop = {}) {
  return execute_all(std::span{&start, 1}, limit, stop).front();
}

}  // namespace CAPSTAN_EXPORT capstan
