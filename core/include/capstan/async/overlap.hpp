// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include "capstan/async/execute.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

// Computations that hide operations. All functions here start the progress thread if there is none.
// Where no core is free for it, they say so once, in the log; see Work::ensure_overlap().

namespace detail {

/// Cancels in the end what is pending then, as when a function of the program has thrown.
class Overlapping {
 public:
  explicit Overlapping(std::size_t room = 1) { works_.reserve(room); }
  Overlapping(const Overlapping&) = delete;
  Overlapping& operator=(const Overlapping&) = delete;
  ~Overlapping() {
    for (const Work& work : works_) work.withdraw();
  }

  void add(Work work) {
    works_.push_back(std::move(work));
    works_.back().ensure_overlap();
  }
  /// Returns when all have completed, in the order in which they were added.
  std::vector<Work> finish() const {
    for (const Work& work : works_) work.wait();
    return works_;
  }

 private:
  std::vector<Work> works_;
};

}  // namespace detail

/// The results of a pipeline, in the order of its items.
template <class Computed>
struct Pipelined {
  std::vector<Computed> computed;  ///< what the computations returned
  std::vector<Work> works;         ///< the operations, for their results
};

/// Starts an operation, computes while it is under way, waits for it, and returns the result of the
/// computation. When the computation throws, the operation is cancelled.
template <StartsOperation Start, class Compute>
auto compute_while_communicating(Start start, Compute compute) {
  detail::Overlapping pending;
  pending.add(start());
  if constexpr (std::is_void_v<std::invoke_result_t<Compute&>>) {
    compute();
    pending.finish();
  } else {
    auto result = compute();
    pending.finish();
    return result;
  }
}

/// For each item in turn: compute(item), then communicate(item), which starts an operation. Item k
/// is computed while the operations of items before it are under way. Returns when all have
/// completed: the operations in the order of items or, if computations return values, Pipelined.
/// When a function throws, pending operations are cancelled.
template <std::ranges::input_range Items, class Compute, class Communicate>
auto pipeline_compute_communicate(Items&& items, Compute compute, Communicate communicate) {
  using Computed =
      std::decay_t<std::invoke_result_t<Compute&, std::ranges::range_reference_t<Items>>>;
  detail::Overlapping pending;
  if constexpr (std::is_void_v<Computed>) {
    for (auto&& item : items) {
      std::invoke(compute, item);
      pending.add(std::invoke(communicate, item));
    }
    return pending.finish();
  } else {
    Pipelined<Computed> results;
    for (auto&& item : items) {
      results.computed.push_back(std::invoke(compute, item));
      pending.add(std::invoke(communicate, item));
    }
    results.works = pending.finish();
    return results;
  }
}

/// The other order: starts the operations of all items, then computes on each item while they are
/// under way. compute(item) leaves alone what the operation of any item uses. Returns and throws
/// like pipeline_compute_communicate().
template <std::ranges::forward_range Items, class Communicate, class Compute>
auto pipeline_communicate_compute(Items&& items, Communicate communicate, Compute compute) {
  using Computed =
      std::decay_t<std::invoke_result_t<Compute&, std::ranges::range_reference_t<Items>>>;
  detail::Overlapping pending;
  for (auto&& item : items) pending.add(std::invoke(communicate, item));
  if constexpr (std::is_void_v<Computed>) {
    for (auto&& item : items) std::invoke(compute, item);
    return pending.finish();
  } else {
    Pipelined<Computed> results;
    for (auto&& item : items) results.computed.push_back(std::invoke(compute, item));
    results.works = pending.finish();
    return results;
  }
}

}  // namespace CAPSTAN_EXPORT capstan
