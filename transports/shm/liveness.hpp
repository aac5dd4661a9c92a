// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>

#include "core/platform/net/file_descriptor.hpp"

namespace capstan::shm {

/// A descriptor that becomes readable when a process ends. All communicators of this process share
/// one for each process that lives.
using Pidfd = std::shared_ptr<const FileDescriptor>;

/// The descriptor for process `pid`. Null, with errno set, when the process is gone (ESRCH) or the
/// kernel has none to give (Linux before 5.3, seccomp).
Pidfd open_pidfd(pid_t pid);

/// The same for the process that opened the other end of `socket`, whose pid is `pid`.
Pidfd open_pidfd_of_peer(int socket, pid_t pid);

/// Whether `fd` is readable. A pidfd is when its process has ended.
bool is_readable(int fd);

/// Whether `pid` is certainly no process of this pid namespace.
bool is_gone(pid_t pid);

/// Tells whether a peer's process still lives. A pidfd stays right when the pid is reused, and when
/// a forked child outlives the peer and still holds its sockets. Without pidfds, the start-up
/// connection is kept, and its end counts as the peer's end.
class Liveness {
 public:
  Liveness() = default;
  Liveness(pid_t pid, Pidfd pidfd, FileDescriptor socket);

  /// Costs one system call.
  bool ended() const;
  /// The pid in this process's pid namespace; 0 if it is not visible there.
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  Pidfd pidfd_;
  FileDescriptor socket_;  // also kept when only the peer needs it
};

}  // namespace capstan::shm
