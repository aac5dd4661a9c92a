// SPDX-License-Identifier: Apache-2.0
#include "perf/collectives/wire.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "capstan/error.hpp"

namespace capstan::perf {
namespace {

std::size_t moved(ssize_t bytes) {
  if (bytes > 0) return static_cast<std::size_t>(bytes);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  throw SystemError(
      fmt::format("bare wire: {}", bytes == 0 ? "the other side is gone" : std::strerror(errno)));
}

}  // namespace

Wire::Wire(FileDescriptor socket, std::size_t window)
    : socket_(std::move(socket)), outgoing_(window), incoming_(window) {
  const int one = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::fcntl(socket_.get(), F_SETFL, O_NONBLOCK);
}

void Wire::exchange(Wire& to, std::size_t sending, Wire& from, std::size_t receiving) {
  std::size_t sent = 0, received = 0;
  while (sent < sending || received < receiving) {
    if (sent < sending) sent += to.send(sent, sending);
    if (received < receiving) received += from.receive(received, receiving);
  }
}

std::size_t Wire::send(std::size_t done, std::size_t all) {
  return moved(::send(socket_.get(), outgoing_.data() + done % outgoing_.size(), step(done, all),
                      MSG_NOSIGNAL));
}

std::size_t Wire::receive(std::size_t done, std::size_t all) {
  return moved(
      ::recv(socket_.get(), incoming_.data() + done % incoming_.size(), step(done, all), 0));
}

/// Bytes that one call may move: at most the rest of the message and of the window.
std::size_t Wire::step(std::size_t done, std::size_t all) const {
  const std::size_t window = outgoing_.size();
  return std::min({wire_call_bytes, all - done, window - done % window});
}

}  // namespace capstan::perf
