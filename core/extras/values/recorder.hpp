// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

namespace capstan::values {
class EpochQueue;
}

namespace capstan::values::detail {

/// Writes down what happens, for CAPSTAN_DEBUG_DAG. Thread-safe.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void epoch(const EpochQueue& queue, std::uint64_t number) = 0;
  /// A task got what it waited for.
  virtual void access(std::uint64_t task, const EpochQueue& queue, std::uint64_t epoch,
                      bool reads) = 0;
  virtual void woken(std::uint64_t task) = 0;
  virtual void run_begins(std::uint64_t task, const std::source_location& where) = 0;
  virtual void run_ends(std::uint64_t task) = 0;
};

/// Null when nothing is recorded: then a check of this is all that recording costs.
extern std::atomic<Recorder*> recorder;

inline Recorder* recording() {
  return recorder.load(std::memory_order_acquire);
}

inline void record_epoch(const EpochQueue& queue, std::uint64_t number) {
  if (Recorder* const active = recording()) [[unlikely]]
    active->epoch(queue, number);
}

}  // namespace capstan::values::detail
