#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "capstan/work.hpp"

namespace capstan {

/// Operations in flight that are waited for together, in the order in which they were put in.
/// Thread-safe. A wait is for the operations in the queue when it began, and holds no lock. The
/// destructor cancels pending operations.
class OperationQueue {
 public:
  OperationQueue() = default;
  OperationQueue(const OperationQueue&) = delete;
  ~OperationQueue() { cancel_all(); }

  /// Throws InvalidArgument for a Work that means no operation.
  void enqueue(Work work);

  std::size_t size() const;
  /// The number of operations that have not ended.
  std::size_t pending_count() const;

  /// Returns when all have ended. Then throws the error of the first one that did not complete
  /// (Cancelled, if it was cancelled).
  void wait_for_all() const;
  /// False when some have not ended within `timeout`, which is one budget for all. Throws like
  /// wait_for_all().
  bool try_wait_for_all(std::chrono::nanoseconds timeout) const;
  /// The index of one that has ended; nothing when the time passes before. Throws InvalidArgument
  /// when the queue is empty.
  std::optional<std::size_t> wait_for_any(
      std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const;

  /// Drops those that have ended; the others keep their order.
  void clear_completed();
  /// Withdraws those that have not ended (see Work); they stay in the queue.
  void cancel_all();

  /// The outputs of all, in order. Throws like Work::result().
  template <Element T>
  std::vector<std::span<T>> results() const {
    std::vector<std::span<T>> results;
    for (const Work& work : snapshot()) results.push_back(work.result<T>());
    return results;
  }

 private:
  std::vector<Work> snapshot() const;

  mutable std::mutex mutex_;
  std::vector<Work> works_;
};

}  // namespace capstan
