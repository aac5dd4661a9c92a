// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>

#include "core/platform/net/wakeup.hpp"

namespace capstan::loopback {

/// Lets one thread sleep until another rings. A ring after prepare() is never lost. prepare(),
/// sleep() and cancel() are for the sleeping thread only; the rest is thread-safe.
class Bell {
 public:
  void ring();
  void prepare();
  /// Returns when rung since prepare(), or after `at_most`.
  void sleep(std::chrono::nanoseconds at_most);
  void cancel();
  /// Readable from the first ring after prepare() to the end of the sleep.
  int descriptor() const { return event_.descriptor(); }

 private:
  Wakeup event_;
  std::mutex mutex_;
  bool armed_ = false;  // between prepare() and the first ring
};

}  // namespace capstan::loopback
