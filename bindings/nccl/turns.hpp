// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace capstan::nccl {

/// The order in which the calls of a communicator were made. It is the same on all ranks, so calls
/// run in it, whatever streams they wait in. Thread-safe.
class Turns {
 public:
  using Number = std::uint64_t;

  /// The next turn. Each that is taken is ended once.
  Number take() {
    const std::scoped_lock lock{mutex_};
    return taken_++;
  }
  /// Returns when all turns before this one have ended.
  void await(Number turn) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return ended_ == turn; });
  }
  void end() {
    const std::scoped_lock lock{mutex_};
    ++ended_;
    changed_.notify_all();
  }
  /// Returns when all turns that have been taken have ended.
  void await_all() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&, until = taken_] { return ended_ >= until; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Number taken_ = 0, ended_ = 0;
};

}  // namespace capstan::nccl
