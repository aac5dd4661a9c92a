// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/memfd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/platform/net/limits.hpp"
#include "core/platform/net/system_call.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace capstan::shm {
namespace {

constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr const char* name = "capstan";  // shown in /proc/PID/maps

FileDescriptor open_memfd() {
  // Hardened systems refuse memfds that could be executed; kernels before 6.3 and some sandboxes
  // refuse the flag.
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = ::memfd_create(name, flags | MFD_NOEXEC_SEAL);
  if (fd < 0) fd = ::memfd_create(name, flags);
  return FileDescriptor{checked(fd, "memfd_create")};
}

}  // namespace

Memfd Memfd::create(Bytes size, Mapping::InChildren in_children) {
  Memfd memory{open_memfd(), {}};
  const auto length = static_cast<off_t>(whole_pages(size).value());
  // The kernel would end the process by SIGXFSZ.
  if (limit_of(RLIMIT_FSIZE).most < whole_pages(size).value()) {
    errno = EFBIG;
    throw_errno("ftruncate of shared memory");
  }
  checked(::ftruncate(memory.fd.get(), length), "ftruncate of shared memory");
  memory.mapping = Mapping::shared(memory.fd.get(), size, PROT_READ | PROT_WRITE, in_children);
  checked(::fcntl(memory.fd.get(), F_ADD_SEALS, fixed_size | F_SEAL_SEAL), "fcntl(F_ADD_SEALS)");
  return memory;
}

std::optional<std::string> unsafe_to_map(int fd, Bytes size) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return "it handed over a descriptor that is no memfd";
  if ((seals & fixed_size) != fixed_size) return "its memory is not sealed against resizing";

  struct stat status{};
  if (::fstat(fd, &status) != 0) return "its memory cannot be examined";
  const auto expected = whole_pages(size).value();
  if (static_cast<std::uint64_t>(status.st_size) != expected) {
    return fmt::format("its memory has {} bytes, but its address announced {}", status.st_size,
                       expected);
  }
  return std::nullopt;
}

}  // namespace capstan::shm
