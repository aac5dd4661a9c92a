// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/platform/net/system_call.hpp"

namespace capstan::shm {
namespace {

constexpr std::size_t most_descriptors = 3;

union ControlBuffer {
  cmsghdr alignment;
  std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> bytes;
};

FileDescriptor open_socket() {
  return FileDescriptor::not_in_children(
      checked(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket"));
}

struct AbstractAddress {
  explicit AbstractAddress(std::string_view name) {
    address.sun_family = AF_UNIX;
    const auto size = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), size);  // the leading zero byte: abstract
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t length;
};

/// The descriptors of a message, from any sender. They get an owner at once, so that none leaks.
std::vector<FileDescriptor> take_descriptors(msghdr& header) {
  std::vector<FileDescriptor> result;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      result.emplace_back(fd);
    }
  }
  return result;
}

void attach_descriptors(msghdr& header, ControlBuffer& control, std::span<const int> descriptors) {
  header.msg_control = control.bytes.data();
  header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
}

bool is_hang_up(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

}  // namespace

UnixListener::UnixListener(std::string_view name, int backlog) : socket_(open_socket()) {
  const AbstractAddress address{name};
  checked(::bind(socket_.get(), address.get(), address.length), "bind");
  checked(::listen(socket_.get(), backlog), "listen");
}

std::optional<FileDescriptor> UnixListener::accept() {
  while (true) {
    const int fd = ::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) return FileDescriptor::not_in_children(fd);
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR && errno != ECONNABORTED) throw_errno("accept4");
  }
}

void UnixListener::close() {
  // A forked child that cleans up must not stop its parent from listening.
  if (socket_.valid() && process_.is_this()) ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();
}

Connecting connect_to(std::string_view name) {
  FileDescriptor socket = open_socket();
  const AbstractAddress address{name};
  int result = 0;
  do {
    result = ::connect(socket.get(), address.get(), address.length);
  } while (result < 0 && errno == EINTR);
  if (result == 0) return {Attempt::done, std::move(socket)};
  if (errno == EAGAIN) return {Attempt::later, {}};
  if (errno == ECONNREFUSED) return {Attempt::refused, {}};
  throw_errno("connect to a peer's socket");
}

Credentials credentials_of_peer(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  checked(::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length), "getsockopt(SO_PEERCRED)");
  return {peer.pid, peer.uid};
}

Attempt send_message(int socket, std::span<const std::byte> message,
                     std::span<const int> descriptors) {
  iovec payload{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &payload;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  if (!descriptors.empty()) attach_descriptors(header, control, descriptors);

  if (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Attempt::done;
  // ETOOMANYREFS: this user has more descriptors in flight than the kernel allows at once.
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS) {
    return Attempt::later;
  }
  if (is_hang_up(errno)) return Attempt::refused;
  throw_errno("sendmsg");
}

std::optional<Received> receive_message(int socket, std::span<std::byte> buffer) {
  iovec payload{buffer.data(), buffer.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &payload;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();

  const ssize_t length = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (length < 0) {
    if (errno == EAGAIN || errno == EINTR) return std::nullopt;
    if (is_hang_up(errno)) return Received{0, true, {}, false};
    throw_errno("recvmsg");
  }
  const bool whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  auto descriptors = take_descriptors(header);
  // Without room in the buffer, the most that fit have come; without room in the process, fewer.
  const bool lacks = (header.msg_flags & MSG_CTRUNC) != 0 && descriptors.size() < most_descriptors;
  return Received{whole ? static_cast<std::size_t>(length) : 0, length == 0, std::move(descriptors),
                  lacks};
}

}  // namespace capstan::shm
