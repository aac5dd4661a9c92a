// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace capstan {

struct CachedPlan;
class StepLog;

/// Is told of the calls of a program as they end, with their times.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// Called under the lock of Progress. The times are nanoseconds of the steady clock.
  virtual void ended(const CachedPlan& plan, std::int64_t began, std::int64_t ended,
                     bool failed) noexcept = 0;
  /// Where the steps of calls go; ended() finds those of its call there. Null: nowhere.
  virtual StepLog* step_log() { return nullptr; }
};

}  // namespace capstan
