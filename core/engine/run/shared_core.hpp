// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

namespace capstan {

/// Whether the core of waiting threads is shared with other programs that give it back soon: ranks
/// of another job that wait in the same way. All jobs are faster then if none spins. The duration
/// of a yield shows such a program, which is remembered for a while. Thread-safe.
// measured: docs/lab-notebook.md#shared-cores
class SharedCore {
 public:
  using Clock = std::chrono::steady_clock;

  /// As of the last look.
  bool is_shared() const { return shared_; }
  bool is_shared(Clock::time_point now);
  /// Gives the core to other threads, if any wait for it.
  void yield(Clock::time_point now);

 private:
  std::atomic<bool> shared_ = false;
  std::atomic<Clock::time_point> until_{};
};

}  // namespace capstan
