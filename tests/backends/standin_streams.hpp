// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Parts of the stand-in for NCCL, RCCL and the runtimes of CUDA and HIP: see standin_nccl.cpp.
/// Sources are compiled with hidden names, so each copy of the library has its own objects.
namespace standin {

extern std::atomic<int> objects;  // streams, events and memory that have not been freed

/// A thread that runs what is put into it in order.
class Stream {
 public:
  Stream() : thread_([this](const std::stop_token& stop) { run(stop); }) { ++objects; }
  ~Stream() { --objects; }

  std::uint64_t put(std::function<void()> work) {
    const std::lock_guard lock{mutex_};
    queue_.push_back(std::move(work));
    changed_.notify_all();
    return ++put_;
  }
  std::uint64_t last() {
    const std::lock_guard lock{mutex_};
    return put_;
  }
  bool has_done(std::uint64_t number) {
    const std::lock_guard lock{mutex_};
    return done_ >= number;
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    while (changed_.wait(lock, stop, [&] { return !queue_.empty(); })) {
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
      ++done_;
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> queue_;
  std::uint64_t put_ = 0, done_ = 0;
  std::jthread thread_;
};

struct Event {
  Event() { ++objects; }
  ~Event() { --objects; }
  Stream* stream = nullptr;
  std::uint64_t number = 0;
};

}  // namespace standin
