#include "transports/shm/liveness.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <utility>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace capstan::shm {

FileDescriptor open_pidfd(pid_t pid) {
  if (pid <= 0) return errno = EINVAL, FileDescriptor{};
  return FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
}

FileDescriptor open_pidfd_of_peer(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof(fd);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return FileDescriptor{fd};
  return open_pidfd(pid);
}

bool is_readable(int fd) {
  pollfd query{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&query, 1, 0) > 0;
}

bool is_gone(pid_t pid) {
  return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

Liveness::Liveness(pid_t pid, FileDescriptor pidfd, FileDescriptor socket)
    : pid_(pid), pidfd_(std::move(pidfd)), socket_(std::move(socket)) {}

bool Liveness::ended() const {
  const FileDescriptor& watched = pidfd_.valid() ? pidfd_ : socket_;
  return watched.valid() && is_readable(watched.get());
}

}  // namespace capstan::shm
