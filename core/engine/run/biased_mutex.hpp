// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <list>
#include <mutex>

#include "core/platform/net/own_process.hpp"

namespace capstan {

/// A mutex that is cheap for one thread that takes it again and again: no atomic read-modify-write,
/// which would wait for all stores before it ("biased locking"). Another thread moves the bias to
/// itself with membarrier(2). After some such moves, or share(), or where the kernel has no such
/// call, it is a plain mutex. Not recursive. In a forked child lock() throws InvalidArgument: the
/// bias is taken away there, so the cheap path needs no check.
class BiasedMutex final : private ChangedByFork {
 public:
  /// The part of a thread.
  struct Owner {
    const void* thread = nullptr;
    std::atomic<bool> inside = false;
  };

  /// Returns what unlock() is to be told. Throws InvalidArgument in the function of an operation,
  /// which is called with the mutex held.
  Owner* lock() {
    Owner* const own = owner_.load(std::memory_order_acquire);
    if (own && own->thread == this_thread()) [[likely]] {
      if (own->inside.load(std::memory_order_relaxed)) [[unlikely]]
        require_no_operation();
      own->inside.store(true, std::memory_order_relaxed);
      // Before the load, for a thread that has called membarrier(2) in between.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (owner_.load(std::memory_order_relaxed) == own) [[likely]]
        return own;
      own->inside.store(false, std::memory_order_release);
    }
    return take();
  }
  void unlock(Owner* own) {
    if (own) [[likely]]
      own->inside.store(false, std::memory_order_release);
    else
      mutex_.unlock();
  }

  /// Throws InvalidArgument in a forked child.
  void require_own_process() const { process_.require("this communicator"); }

  /// From now on it is a plain mutex: plain().
  void share();
  bool is_shared() const { return shared_.load(std::memory_order_relaxed); }
  /// For condition variables, once it is shared.
  std::mutex& plain() { return mutex_; }
  /// Whether another thread than this one has ever taken it, or it is shared.
  bool is_used_by_others();
  /// A thread waits for it.
  bool is_awaited() const { return awaited_.load(std::memory_order_relaxed) > 0; }

 private:
  static const void* this_thread() { return __builtin_thread_pointer(); }

  void become_child() noexcept override { owner_.store(nullptr, std::memory_order_relaxed); }

  [[gnu::noinline]] static void require_no_operation();
  [[gnu::noinline]] Owner* take();
  Owner& owner_of_this_thread();
  void move_bias(Owner* next);

  std::atomic<Owner*> owner_ = nullptr;  // null: nobody has the bias
  std::atomic<bool> shared_ = false;
  std::atomic<int> awaited_ = 0;
  std::mutex mutex_;
  int moves_ = 0;             // of the bias; under the mutex, as what follows
  std::list<Owner> threads_;  // by address of their control blocks, which come again
  const OwnProcess process_;
};

}  // namespace capstan
