#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/device/shared_library.hpp"
#include "core/memory/registration/address_range.hpp"

namespace capstan {

/// How this machine keeps pages in memory for devices. Thread-safe.
class PageLocker {
 public:
  virtual ~PageLocker() = default;

  /// "mlock", "CUDA", "HIP".
  virtual std::string_view name() const = 0;

  /// New page-locked memory; `size` is a multiple of the page size. Throws LimitReached when the
  /// system allows no more, else SystemError.
  virtual AddressRange allocate(Bytes size) = 0;
  virtual void deallocate(AddressRange block) noexcept = 0;

  /// Locks whole pages that exist, none of which this locker has locked. Throws like allocate().
  virtual void lock(AddressRange pages) = 0;
  /// Exactly the pages of one lock().
  virtual void unlock(AddressRange pages) noexcept = 0;
};

/// mlock(2). Locks of other code on the same pages do not add up: the kernel counts none.
std::unique_ptr<PageLocker> make_memory_locker();
/// cuMemHostAlloc and cuMemHostRegister from libcuda, in the first GPU's primary context, which is
/// the CUDA runtime's too: usable from all GPUs. Null without driver or GPU.
std::unique_ptr<PageLocker> make_cuda_locker(const LibraryLoader& loader = system_loader());
/// hipHostMalloc and hipHostRegister from libamdhip64. Null without runtime or GPU.
std::unique_ptr<PageLocker> make_hip_locker(const LibraryLoader& loader = system_loader());

/// CUDA's, HIP's, or else mlock: whichever this machine has.
std::unique_ptr<PageLocker> make_page_locker(const LibraryLoader& loader = system_loader());

/// What the process may lock and has locked.
struct LockedMemory {
  Bytes limit{};           ///< RLIMIT_MEMLOCK; means nothing when `unlimited`
  bool unlimited = false;  ///< no limit, or the right to exceed it (CAP_IPC_LOCK)
  Bytes used{};            ///< VmLck of /proc/self/status
};
LockedMemory locked_memory();

/// What to do about too low a limit.
inline constexpr std::string_view memlock_remedy =
    "raise it: 'ulimit -l unlimited', LimitMEMLOCK=infinity for a service, '--ulimit memlock=-1' "
    "for a container, a 'memlock' line in /etc/security/limits.conf for a user";

}  // namespace capstan
