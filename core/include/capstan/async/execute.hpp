#pragma once

#include <concepts>
#include <functional>
#include <ranges>
#include <stop_token>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A function that starts an operation.
template <class F>
concept StartsOperation = std::invocable<F&> && std::same_as<std::invoke_result_t<F&>, Work>;

/// Waits for operations that belong together, with one time limit for all. When the time is up, a
/// stop is requested or one of the operations fails, the others are cancelled. Throws
/// DeadlineExceeded, Cancelled, or OperationFailed with the cause; a stop request is seen within
/// 20 ms.
void finish_all(std::span<const Work> works, std::chrono::nanoseconds timeout,
                const std::stop_token& stop);

namespace detail {
/// Cancels these operations and throws OperationFailed with the current exception.
[[noreturn]] void give_up(std::span<const Work> works);
}  // namespace detail

/// Starts all operations, then waits like finish_all(). Returns the operations in order. Throws
/// OperationFailed also when one cannot be started.
template <std::ranges::input_range Starts>
  requires StartsOperation<std::ranges::range_reference_t<Starts>>
std::vector<Work> execute_all_async(Starts&& starts, std::chrono::nanoseconds timeout,
                                    const std::stop_token& stop = {}) {
  std::vector<Work> works;
  try {
    for (auto&& start : starts) works.push_back(std::invoke(start));
  } catch (...) {
    detail::give_up(works);
  }
  finish_all(works, timeout, stop);
  return works;
}

/// Starts one operation and waits until it has completed. Returns the operation, for its result.
/// Throws like execute_all_async().
template <StartsOperation Start>
Work execute_async(Start start, std::chrono::nanoseconds timeout,
                   const std::stop_token& stop = {}) {
  return execute_all_async(std::vector<std::reference_wrapper<Start>>{start}, timeout, stop)
      .front();
}

}  // namespace capstan
