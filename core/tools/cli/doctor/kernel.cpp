// SPDX-License-Identifier: Apache-2.0
#include <linux/membarrier.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/platform/net/file_descriptor.hpp"
#include "core/tools/cli/doctor/probe.hpp"

namespace capstan::cli {
namespace {

Probe memfd() {
  const FileDescriptor fd{
      static_cast<int>(::syscall(SYS_memfd_create, "capstan", MFD_CLOEXEC | MFD_ALLOW_SEALING))};
  if (fd.valid()) return {"memfd", Probe::Status::ok, "shared memory without a name"};
  return {"memfd", Probe::Status::problem, std::strerror(errno),
          "the shm transport needs memfd_create (Linux 3.17 or later, not forbidden by seccomp)"};
}

Probe pidfd() {
  const FileDescriptor fd{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  if (fd.valid())
    return {"pidfd", Probe::Status::ok, "the end of a peer's process is noticed at once"};
  return {
      "pidfd", Probe::Status::note, std::strerror(errno),
      "Linux 5.3 or later has it, unless a sandbox forbids it; until then connections are watched "
      "instead, and launchers look at their processes again and again"};
}

Probe membarrier() {
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands > 0 && commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED)
    return {"membarrier", Probe::Status::ok, "sleepers are woken without a fence on the fast path"};
  return {
      "membarrier", Probe::Status::note, "absent",
      "sleeps are bounded to 1 ms instead; allow membarrier in the container's seccomp profile"};
}

/// Tries to read the memory of a child process.
Probe cross_memory_attach() {
  int value = 4711, copy = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  iovec local{&copy, sizeof copy}, remote{&value, sizeof value};
  const ssize_t got = ::process_vm_readv(child, &local, 1, &remote, 1, 0);
  const int error = errno;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (got == sizeof copy && copy == value)
    return {"cross-memory attach", Probe::Status::ok, "process_vm_readv works"};
  return {"cross-memory attach", Probe::Status::note, std::strerror(error),
          "see /proc/sys/kernel/yama/ptrace_scope; long messages are copied through staging "
          "buffers instead, which is slower"};
}

}  // namespace

Probes kernel_probes() {
  return {memfd, pidfd, membarrier, cross_memory_attach};
}

}  // namespace capstan::cli
