#pragma once

#include <functional>
#include <ranges>
#include <utility>
#include <vector>

#include "capstan/async/execute.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Starts an operation, computes while it is under way, waits for it, and returns the result of the
/// computation. Without a progress thread the operation moves on only before and after the
/// computation. When the computation throws, the operation is cancelled.
template <StartsOperation Start, class Compute>
auto compute_while_communicating(Start start, Compute compute) {
  struct CancelUnlessDone {
    Work work;
    ~CancelUnlessDone() { work.withdraw(); }
  };
  const CancelUnlessDone pending{start()};
  if constexpr (std::is_void_v<std::invoke_result_t<Compute&>>) {
    compute();
    pending.work.wait();
  } else {
    auto result = compute();
    pending.work.wait();
    return result;
  }
}

/// For each item in turn: compute(item), then communicate(item), which starts an operation. Item k
/// is computed while the operations of items before it are under way. Returns when all have
/// completed, with the operations in the order of items. When a function throws, pending operations
/// are cancelled.
template <std::ranges::input_range Items, class Compute, class Communicate>
std::vector<Work> pipeline_compute_communicate(Items&& items, Compute compute,
                                               Communicate communicate) {
  struct CancelUnlessDone {
    std::vector<Work> works;
    ~CancelUnlessDone() {
      for (const Work& work : works) work.withdraw();
    }
  };
  CancelUnlessDone pending;
  for (auto&& item : items) {
    std::invoke(compute, item);
    pending.works.push_back(std::invoke(communicate, item));
  }
  for (const Work& work : pending.works) work.wait();
  return pending.works;
}

}  // namespace capstan
