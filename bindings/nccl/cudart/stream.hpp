// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "bindings/nccl/cudart/cuda_runtime.h"

namespace capstan::cudart {

/// A point in the order of a stream. It is passed when all work before it has ended. Thread-safe.
class Moment {
 public:
  using Clock = std::chrono::steady_clock;

  void pass();
  bool passed() const;
  void wait() const;
  /// The time at which the moment was passed. Only for one that is passed.
  Clock::time_point when() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool passed_ = false;
  Clock::time_point when_;
};

/// A queue whose work runs in order on a thread of its own, which begins with the first work.
/// Thread-safe.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  using Work = std::function<void()>;

  Stream(int device, unsigned flags) : device_(device), flags_(flags) {}

  int device() const { return device_; }
  unsigned flags() const { return flags_; }
  /// Whether work of the device's default stream and of this one wait for each other.
  bool blocking() const { return (flags_ & cudaStreamNonBlocking) == 0; }

  /// `after` is passed when the work has ended and counts no more.
  void put(Work work, std::shared_ptr<Moment> after = nullptr);
  /// The moment after all work so far; nothing where all has ended.
  std::shared_ptr<Moment> mark();
  bool idle() const;

  /// No more work will come: the thread ends after what there is.
  void close();
  bool closed() const;

  /// Sets the error that the next wait for the stream returns.
  void fail(cudaError_t error);
  cudaError_t take_failure();

  /// Whether the calling thread is that of a stream.
  static bool runs_this_thread();

 private:
  struct Entry {
    Work work;
    std::shared_ptr<Moment> after;
  };
  void append(Entry entry);
  void run();

  const int device_;
  const unsigned flags_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> works_;  ///< the first one runs
  bool has_thread_ = false, closed_ = false;
  cudaError_t failure_ = cudaSuccess;
};

}  // namespace capstan::cudart
