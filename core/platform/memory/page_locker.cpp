// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/page_locker.hpp"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "capstan/error.hpp"

namespace capstan {
namespace {

[[noreturn]] void refuse(const char* call, Bytes size, int error) {
  const LockedMemory locked = locked_memory();
  const std::string reason = std::generic_category().message(error);
  if (!locked.unlimited && (error == ENOMEM || error == EPERM || error == EAGAIN) &&
      locked.used + size > locked.limit)
    throw LimitReached(fmt::format(
        "{} of {} failed: {}: this process has locked {} of the {} that RLIMIT_MEMLOCK allows; {}",
        call, readable(size), reason, readable(locked.used), readable(locked.limit),
        memlock_remedy));
  if (error == ENOMEM)
    throw SystemError(
        fmt::format("{} of {} failed: {}: part of it is not mapped, or the machine or "
                    "its cgroup has no memory left",
                    call, readable(size), reason));
  throw SystemError(fmt::format("{} of {} failed: {}", call, readable(size), reason));
}

class MemoryLocker final : public PageLocker {
 public:
  std::string_view name() const override { return "mlock"; }

  AddressRange allocate(Bytes size) override {
    void* block =
        ::mmap(nullptr, size.value(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) refuse("mmap", size, errno);
    const AddressRange range = address_range(block, size, "mmap");
    if (::mlock(block, size.value()) == 0) return range;
    const int error = errno;
    deallocate(range);
    refuse("mlock", size, error);
  }

  void deallocate(AddressRange block) noexcept override {
    ::munmap(block.data(), block.size().value());
  }

  void lock(AddressRange pages) override {
    if (::mlock(pages.data(), pages.size().value()) == 0) return;
    const int error = errno;
    unlock(pages);  // some of them may have been locked
    refuse("mlock", pages.size(), error);
  }

  void unlock(AddressRange pages) noexcept override {
    ::munlock(pages.data(), pages.size().value());
  }
};

}  // namespace

std::unique_ptr<PageLocker> make_memory_locker() {
  return std::make_unique<MemoryLocker>();
}

LockedMemory locked_memory() {
  LockedMemory locked;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  locked.limit = Bytes{limit.rlim_cur};
  locked.unlimited = limit.rlim_cur == RLIM_INFINITY;
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields{line};
    std::string key;
    std::uint64_t value = 0;
    fields >> key;
    if (key == "VmLck:" && fields >> value) locked.used = Bytes{value << 10};
    if (key == "CapEff:" && fields >> std::hex >> value && (value >> CAP_IPC_LOCK & 1) != 0)
      locked.unlimited = true;
  }
  return locked;
}

}  // namespace capstan
