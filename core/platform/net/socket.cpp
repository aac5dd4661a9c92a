// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/socket.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/limits.hpp"
#include "core/platform/net/system_call.hpp"

namespace capstan {
namespace {

std::string remedy_for_bind(int error, const SocketEndpoint& endpoint) {
  const bool local = std::holds_alternative<AbstractEndpoint>(endpoint);
  if (error == EADDRINUSE && local) return "another process listens there; see `ss -xlp`";
  if (error == EADDRINUSE) {
    return "another process listens there: choose another port (0 lets the system choose; "
           "CAPSTAN_STORE and MASTER_PORT name it), or find that process with `ss -tlp`";
  }
  if (error == EADDRNOTAVAIL) {
    return "it is not an address of this host: rank 0 must run on the host that CAPSTAN_STORE or "
           "MASTER_ADDR names";
  }
  if (error == EACCES) return "this port needs privileges: choose one from 1024 up";
  return "choose another address or port";
}

/// The result of `call`, which is repeated after a signal.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// Begins to connect. Returns 0 for success at once, EINPROGRESS if the attempt continues, or the
/// error.
int connect_error(const FileDescriptor& socket, const SocketAddress& address) {
  const int result =
      uninterrupted([&] { return ::connect(socket.get(), address.get(), address.length); });
  if (result == 0 || errno == EISCONN) return 0;
  // After a signal the attempt continues, and the second call reports that by EALREADY.
  return errno == EALREADY ? EINPROGRESS : errno;
}

}  // namespace

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

bool out_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::string error_text(int error) {
  return std::generic_category().message(error);
}

FileDescriptor make_socket(int family) {
  return FileDescriptor::not_in_children(
      ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void require_descriptors(int error) {
  if (error != EMFILE && error != ENFILE) return;
  throw SystemError(fmt::format("socket failed: {}; {}", error_text(error), limit_behind(error)));
}

bool start_listening(const FileDescriptor& socket, const SocketAddress& address) {
  // Connections of an earlier server linger in TIME_WAIT and would otherwise keep its port busy.
  const bool fixed_port = address.family() != AF_UNIX && address.ip_endpoint().port != 0;
  if (fixed_port) set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  return ::bind(socket.get(), address.get(), address.length) == 0 &&
         ::listen(socket.get(), SOMAXCONN) == 0;
}

FileDescriptor listen_on(const SocketEndpoint& endpoint) {
  int error = 0;
  for (const auto& address : resolve(endpoint)) {
    FileDescriptor socket = make_socket(address.family());
    if (socket.valid() && start_listening(socket, address)) return socket;
    error = errno;
    require_descriptors(error);
  }
  throw SystemError(fmt::format("cannot listen on {}: {}: {}", to_string(endpoint),
                                error_text(error), remedy_for_bind(error, endpoint)));
}

std::vector<std::string> abstract_names(std::string_view prefix) {
  std::vector<std::string> names;
  std::ifstream table{"/proc/self/net/unix"};
  for (std::string line; std::getline(table, line);) {
    const auto at = line.find(fmt::format(" @{}", prefix));
    if (at != line.npos) names.push_back(line.substr(at + 2));
  }
  // A listening socket is in the table once more for each connection.
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

bool is_own_listener(const AbstractEndpoint& endpoint) {
  const auto connected =
      connect_to(resolve(endpoint).front(), Deadline::in(std::chrono::seconds{0}));
  return connected.socket.valid() && peer_uid(connected.socket) == ::geteuid();
}

Accepted accept_from(const FileDescriptor& listener) {
  SocketAddress from;
  auto socket = FileDescriptor::not_in_children(
      ::accept4(listener.get(), from.get(), &from.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) return {{}, {}, errno};
  return {std::move(socket), from, 0};
}

bool start_connecting(const FileDescriptor& socket, const SocketAddress& address) {
  const int error = connect_error(socket, address);
  errno = error;
  return error == 0 || error == EINPROGRESS;
}

int connect_result(const FileDescriptor& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

Connected connect_to(const SocketAddress& address, Deadline deadline) {
  FileDescriptor socket = make_socket(address.family());
  int error = socket.valid() ? connect_error(socket, address) : errno;
  require_descriptors(error);
  if (error == EINPROGRESS) {
    error = wait_for(socket, POLLOUT, deadline) ? connect_result(socket) : ETIMEDOUT;
  }
  if (error != 0) return {{}, error};
  return {std::move(socket), 0};
}

SocketAddress local_address(const FileDescriptor& socket) {
  SocketAddress address;
  checked(::getsockname(socket.get(), address.get(), &address.length), "getsockname");
  return address;
}

uid_t peer_uid(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  checked(::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length),
          "getsockopt(SO_PEERCRED)");
  return credentials.uid;
}

bool set_option(const FileDescriptor& socket, int level, int option, int value) {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

void tune(const FileDescriptor& socket, std::chrono::milliseconds timeout) {
  // Not TCP_USER_TIMEOUT: it would also end the connection to a healthy peer that is busy with
  // something else and has not read for that long.
  constexpr int probes = 4;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
  const int interval = static_cast<int>(std::clamp<std::int64_t>(seconds / 2 / probes, 1, 3600));
  const int idle = static_cast<int>(std::clamp<std::int64_t>(seconds - probes * interval, 1, 3600));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, probes);
}

bool wait_for(const FileDescriptor& socket, short events, Deadline deadline) {
  pollfd entry{socket.get(), events, 0};
  while (true) {
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw_errno("poll");
    if (deadline.expired()) return false;
  }
}

ssize_t receive_some(const FileDescriptor& socket, std::span<std::byte> bytes) {
  return uninterrupted(
      [&] { return ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT); });
}

ssize_t send_some(const FileDescriptor& socket, std::span<const std::byte> bytes) {
  return uninterrupted([&] {
    return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool send_all(const FileDescriptor& socket, std::span<const std::byte> message) {
  const ssize_t sent = send_some(socket, message);
  if (sent >= 0 && static_cast<std::size_t>(sent) < message.size()) errno = EAGAIN;
  return sent == static_cast<ssize_t>(message.size());
}

}  // namespace capstan
