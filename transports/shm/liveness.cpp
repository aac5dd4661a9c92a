// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/liveness.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace capstan::shm {

namespace {

/// The descriptor that is open for this process already, or that `open` gives. One that has not
/// become readable is still of the process with this pid.
template <class Open>
Pidfd shared_pidfd(pid_t pid, Open open) {
  static std::mutex mutex;
  static auto& known = *new std::map<pid_t, std::weak_ptr<const FileDescriptor>>;
  if (pid <= 0) return errno = EINVAL, nullptr;
  const std::lock_guard lock{mutex};
  std::weak_ptr<const FileDescriptor>& place = known[pid];
  if (Pidfd open_already = place.lock(); open_already && !is_readable(open_already->get()))
    return open_already;
  const int fd = open();
  const int error = errno;
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  if (fd < 0) return errno = error, nullptr;
  auto opened = std::make_shared<const FileDescriptor>(fd);
  known[pid] = opened;
  return opened;
}

int open_by_pid(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace

Pidfd open_pidfd(pid_t pid) {
  return shared_pidfd(pid, [&] { return open_by_pid(pid); });
}

Pidfd open_pidfd_of_peer(int socket, pid_t pid) {
  return shared_pidfd(pid, [&] {
    int fd = -1;
    socklen_t length = sizeof(fd);
    const bool has = ::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0;
    return has ? fd : open_by_pid(pid);
  });
}

bool is_readable(int fd) {
  pollfd query{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&query, 1, 0) > 0;
}

bool is_gone(pid_t pid) {
  return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

Liveness::Liveness(pid_t pid, Pidfd pidfd, FileDescriptor socket)
    : pid_(pid), pidfd_(std::move(pidfd)), socket_(std::move(socket)) {}

bool Liveness::ended() const {
  const FileDescriptor& watched = pidfd_ ? *pidfd_ : socket_;
  return watched.valid() && is_readable(watched.get());
}

}  // namespace capstan::shm
