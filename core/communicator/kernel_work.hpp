// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "capstan/work.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/run/task.hpp"
#include "core/platform/device/stream_events.hpp"

namespace capstan {

/// The end of a call by a kernel, for those who wait for it: the engine has seen the kernel end,
/// and the stream has passed it, so that all see its results. Thread-safe.
class KernelEnd {
 public:
  /// `given_up`: events do not come any more.
  KernelEnd(SharedEvent event, std::shared_ptr<const std::atomic<bool>> given_up)
      : event_(std::move(event)), given_up_(std::move(given_up)) {}

  /// Where the engine tells that the kernel has ended, and of the error.
  Outcome& outcome() { return outcome_; }
  bool has_kernel_ended() const { return outcome_.finished.load(std::memory_order_acquire); }
  /// Asks the driver when the kernel has ended, and not before: it may be held up by a thread that
  /// waits for a kernel, as it frees memory, or for a call behind one. Throws SystemError for a
  /// device that is lost.
  bool has_passed() const;
  /// After the end; null: none.
  const std::exception_ptr& error() const { return outcome_.error; }
  const SharedEvent& event() const { return event_; }

 private:
  Outcome outcome_;
  const SharedEvent event_;
  const std::shared_ptr<const std::atomic<bool>> given_up_;
};

/// A handle of such a call. Whoever waits for it polls the engine meanwhile.
Work work_of(std::shared_ptr<const KernelEnd> end, std::shared_ptr<Progress> progress,
             std::string name);

}  // namespace capstan
