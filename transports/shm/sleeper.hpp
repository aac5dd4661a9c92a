// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::shm {

/// The word on which one rank sleeps and which its peers check. 0: awake; 1: asleep or about to be.
using Doorbell = std::atomic<std::uint32_t>;

/// The place of the wakers: the sleeper's process, or any process of its host.
enum class Scope { process, host };

/// An eventfd that ringing makes readable instead of waking a futex, so that a sleeper can watch
/// other descriptors, too. Throws SystemError.
FileDescriptor make_bell();
/// Why a descriptor that a peer has handed over is no bell, or nothing. Ringing what is none could
/// block, or write into a file.
std::optional<std::string> unsafe_to_ring(int fd);

/// Wakes the thread that sleeps on `doorbell`, if any; `bell` is its eventfd, or -1. Thread-safe.
void ring_doorbell(Doorbell& doorbell, Scope scope, int bell);

/// Lets one thread sleep until its doorbell rings.
///
/// A waker publishes and then loads the doorbell, without a fence in between. The sleeper provides
/// the fence with membarrier(2): after it has announced its sleep, the kernel makes every running
/// thread of every registered process pass a full barrier. A waker's load either follows that
/// barrier and sees the announcement, or precedes it; then the sleeper's last check sees what was
/// published. Where membarrier is missing on either side, a wake-up can be lost, and sleeps are cut
/// to 1 ms.
///
/// Not thread-safe.
class Sleeper {
 public:
  /// Registers this process with membarrier when `use_membarrier` and the kernel has it. `bell`
  /// outlives the sleeper; -1: it sleeps on the word.
  Sleeper(Doorbell& doorbell, Scope scope, bool use_membarrier = true, int bell = -1);

  /// Whether this process is registered, so that sleeping peers can rely on its wake-ups.
  bool registered() const { return registered_; }
  /// To be called when a waker is not registered: sleeps are short from now on.
  void expect_lost_wakeups() { fences_wakers_ = false; }

  /// Between prepare() and the end of the sleep: readable once rung. -1: there is no bell, or
  /// wake-ups can be lost.
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
