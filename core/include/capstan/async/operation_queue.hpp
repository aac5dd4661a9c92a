// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Operations in flight that a program waits for together, in the order in which they were put in.
/// Thread-safe. A wait is for the operations that are in the queue when the wait begins, and holds
/// no lock. The destructor cancels pending operations.
class OperationQueue {
 public:
  OperationQueue() = default;
  OperationQueue(const OperationQueue&) = delete;
  ~OperationQueue() { cancel_all(); }

  /// Throws InvalidArgument for an empty Work.
  void enqueue(Work work);

  std::size_t size() const;
  /// The number of operations that have not ended. Asking moves them on.
  std::size_t pending_count() const;

  /// Returns when all operations have ended. Then throws the error of the first operation that did
  /// not complete (Cancelled, if it was cancelled).
  void wait_for_all() const;
  /// False when a stop was requested before; operations run on. Throws like wait_for_all().
  [[nodiscard]] bool wait_for_all(const std::stop_token& stop) const;

  /// False when some operations have not ended within `timeout`, one time limit for all, or a stop
  /// was requested before. Throws like wait_for_all().
  bool try_wait_for_all(TimeLimit timeout, const std::stop_token& stop = {}) const;

  /// The index of an operation that has ended; nothing when the time passes, or a stop is
  /// requested, before. Throws InvalidArgument when the queue is empty.
  std::optional<std::size_t> wait_for_any(TimeLimit timeout = {},
                                          const std::stop_token& stop = {}) const;

  /// Drops operations that have ended; the others keep their order. Moves them on first.
  void clear_completed();

  /// Withdraws operations that have not ended (see Work::withdraw); they stay in the queue.
  void cancel_all();

  /// The outputs of all operations, in order. Throws like Work::result().
  template <Element T>
  std::vector<std::span<T>> results() const {
    std::vector<std::span<T>> results;
    for (const Work& work : snapshot()) results.push_back(work.result<T>());
    return results;
  }

 private:
  std::vector<Work> snapshot() const;
  bool wait_until(Deadline deadline, const std::stop_token& stop) const;

  mutable std::mutex mutex_;
  std::vector<Work> works_;
};

}  // namespace CAPSTAN_EXPORT capstan
