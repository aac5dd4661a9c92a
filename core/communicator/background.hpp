// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/platform/net/own_process.hpp"

namespace capstan {

/// A thread of the process that looks after what nobody waits for: time limits, stop requests, and
/// operations of other libraries. It starts with the first task and sleeps while there is none.
/// Tasks run callbacks, which may wait: another thread runs the other tasks meanwhile.
/// Thread-safe; never destroyed.
class Background final : private ChangedByFork {
 public:
  using Clock = std::chrono::steady_clock;
  /// Returns the time until it is to be called again; nothing when it is done. Throws nothing.
  using Task = std::function<std::optional<Clock::duration>()>;

  /// A forked child has one of its own.
  static Background& of_process();

  /// Calls a task for the first time at `when`, on the thread. Throws SystemError if there can be
  /// no thread.
  void add(Clock::time_point when, Task task);

 private:
  struct Entry {
    Clock::time_point due;
    Task task;
  };
  Background() = default;
  void become_child() noexcept override;
  void add_thread();
  [[noreturn]] void run();
  void run_first(std::unique_lock<std::mutex>& lock);
  Clock::time_point next_due() const;

  inline static std::atomic<Background*> current = nullptr;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  bool started_ = false;
  int idle_ = 0;  // threads that wait
};

}  // namespace capstan
