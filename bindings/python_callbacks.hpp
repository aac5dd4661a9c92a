// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace capstan {

/// Callbacks into Python that run on threads of the library. While the interpreter ends, a thread
/// that asks for its lock is ended in the middle of the callback, and the program with it. So none
/// begins any more from then on, and those that run are waited for. Thread-safe.
class PythonCallbacks {
 public:
  static PythonCallbacks& of_process() {
    static auto& callbacks = *new PythonCallbacks;  // threads may use it when exit() has begun
    return callbacks;
  }

  /// Calls `callback`. False, and it does not, when the interpreter ends.
  template <class Callback>
  bool run(Callback callback) {
    if (!begin()) return false;
    struct End {
      PythonCallbacks& callbacks;
      ~End() { callbacks.end(); }
    } const at_end{*this};
    callback();
    return true;
  }

  /// The interpreter ends. Returns whether no callback runs; waits for that as long as `patience`.
  bool close(std::chrono::milliseconds patience) {
    std::unique_lock lock{mutex_};
    closed_ = true;
    return ended_.wait_for(lock, patience, [this] { return running_ == 0; });
  }

 private:
  bool begin() {
    const std::lock_guard lock{mutex_};
    if (closed_) return false;
    ++running_;
    return true;
  }
  void end() {
    const std::lock_guard lock{mutex_};
    if (--running_ == 0) ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  int running_ = 0;
  bool closed_ = false;
};

/// How long the interpreter's end waits for callbacks: then their communicators are aborted, and
/// waited for once more.
inline constexpr std::chrono::seconds longest_callback_at_end{5};

}  // namespace capstan
