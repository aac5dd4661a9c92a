#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/net/file_descriptor.hpp"

namespace capstan::shm {

/// The word on which one rank sleeps and which its peers look at. 0: awake, 1: asleep or about to.
using Doorbell = std::atomic<std::uint32_t>;

/// Where those who ring a doorbell may be: in the sleeper's process, or anywhere on its host.
enum class Scope { process, host };

/// A descriptor (eventfd) that a doorbell makes readable instead of waking who sleeps on the word,
/// so that a sleeper can watch others at the same time. Throws SystemError.
FileDescriptor make_bell();

/// Wakes the thread that sleeps on `doorbell`, if one does; `bell` is its own, or -1. Thread-safe.
void ring_doorbell(Doorbell& doorbell, Scope scope, int bell);

/// Lets one thread sleep until its doorbell rings.
///
/// A waker publishes and then merely loads the doorbell, without a fence in between. The fence
/// that this needs is put there by the sleeper, with membarrier(2): after it has announced its
/// sleep, the kernel makes every running thread of every registered process pass a full barrier.
/// Each waker's load then either follows that barrier and sees the announcement, or precedes it,
/// and what was published before the load is seen by the sleeper's last look. Where membarrier is
/// missing on either side, a wake-up can be lost; sleeps are then cut to 1 ms.
///
/// One thread at a time.
class Sleeper {
 public:
  /// Registers this process with membarrier when `use_membarrier` and the kernel has it. `bell`
  /// stays open meanwhile; -1: it sleeps on the word.
  Sleeper(Doorbell& doorbell, Scope scope, bool use_membarrier = true, int bell = -1);

  /// Whether this process is registered, so that peers that sleep can rely on its wake-ups.
  bool registered() const { return registered_; }
  /// To be called when a waker is not registered: sleeps are short from now on.
  void expect_lost_wakeups() { fences_wakers_ = false; }

  /// Between prepare() and the end of the sleep: readable once rung. -1: there is no bell, or not
  /// every ring can be relied on.
  int descriptor() const { return fences_wakers_ ? bell_ : -1; }

  void prepare();
  /// Returns when rung since prepare(), after `at_most`, or for no reason.
  void sleep(std::chrono::nanoseconds at_most);
  void cancel();

 private:
  Doorbell* doorbell_;
  Scope scope_;
  int bell_;
  bool registered_;
  bool fences_wakers_;
};

}  // namespace capstan::shm
