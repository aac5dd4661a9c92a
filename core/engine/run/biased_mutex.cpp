// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/biased_mutex.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/executor/accumulating.hpp"

namespace capstan {
namespace {

bool membarrier(int command) {
  return ::syscall(SYS_membarrier, command, 0, 0) == 0;
}

/// A move costs some microseconds. Threads that continue taking turns are better off with a plain
/// mutex.
constexpr int most_moves = 100;

bool can_move_bias() {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return registered;
}

}  // namespace

/// Called with the mutex held. Returns when no other thread is inside.
void BiasedMutex::move_bias(Owner* next) {
  Owner* const last = owner_.exchange(next, std::memory_order_seq_cst);
  if (!last || last == next) return;
  membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  while (last->inside.load(std::memory_order_acquire)) ::sched_yield();
}

void BiasedMutex::require_no_operation() {
  if (Accumulating::applies())
    throw InvalidArgument(
        "the function of an operation has called Capstan, whose rank runs that function: let it "
        "only combine the elements that it gets");
}

BiasedMutex::Owner* BiasedMutex::take() {
  require_own_process();
  require_no_operation();
  awaited_.fetch_add(1, std::memory_order_relaxed);
  mutex_.lock();
  awaited_.fetch_sub(1, std::memory_order_relaxed);
  if (is_shared()) return nullptr;
  if (++moves_ > most_moves || !can_move_bias()) {
    move_bias(nullptr);
    shared_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  Owner& own = owner_of_this_thread();
  move_bias(&own);
  own.inside.store(true, std::memory_order_relaxed);
  mutex_.unlock();
  return &own;
}

void BiasedMutex::share() {
  require_own_process();
  require_no_operation();
  const std::lock_guard lock{mutex_};
  if (is_shared()) return;
  move_bias(nullptr);
  shared_.store(true, std::memory_order_relaxed);
}

bool BiasedMutex::is_used_by_others() {
  const std::lock_guard lock{mutex_};
  const auto another = [](const Owner& owner) { return owner.thread != this_thread(); };
  return is_shared() || std::ranges::any_of(threads_, another);
}

BiasedMutex::Owner& BiasedMutex::owner_of_this_thread() {
  const auto known = std::ranges::find(threads_, this_thread(), &Owner::thread);
  if (known != threads_.end()) return *known;
  Owner& own = threads_.emplace_back();
  own.thread = this_thread();
  return own;
}

}  // namespace capstan
