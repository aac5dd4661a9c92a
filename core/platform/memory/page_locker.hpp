// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/platform/memory/registration/address_range.hpp"

namespace capstan {

/// Keeps pages in memory, so that devices can access them. Thread-safe.
class PageLocker {
 public:
  virtual ~PageLocker() = default;

  /// "mlock", "CUDA", "HIP".
  virtual std::string_view name() const = 0;

  /// Allocates page-locked memory; `size` is a multiple of the page size. Throws LimitReached when
  /// the system allows no more, otherwise SystemError.
  virtual AddressRange allocate(Bytes size) = 0;
  virtual void deallocate(AddressRange block) noexcept = 0;

  /// Locks whole pages that exist, none of which this locker has locked. Throws like allocate().
  virtual void lock(AddressRange pages) = 0;
  /// Unlocks the pages of one lock().
  virtual void unlock(AddressRange pages) noexcept = 0;
};

/// Locks with mlock(2). The kernel counts no locks: unlocking a page ends the locks of other code
/// on it, too. core/platform/device/gpu_page_locker.hpp has lockers for GPUs.
std::unique_ptr<PageLocker> make_memory_locker();

/// The memory that the process may lock and has locked.
struct LockedMemory {
  Bytes limit{};           ///< RLIMIT_MEMLOCK; means nothing when `unlimited`
  bool unlimited = false;  ///< no limit, or the right to exceed it (CAP_IPC_LOCK)
  Bytes used{};            ///< VmLck of /proc/self/status
};
LockedMemory locked_memory();

/// The remedy for a limit that is too low, for error texts.
inline constexpr std::string_view memlock_remedy =
    "raise it: 'ulimit -l unlimited', LimitMEMLOCK=infinity for a service, '--ulimit memlock=-1' "
    "for a container, a 'memlock' line in /etc/security/limits.conf for a user";

}  // namespace capstan
