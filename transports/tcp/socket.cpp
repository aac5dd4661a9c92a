#include "transports/tcp/socket.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "capstan/error.hpp"
#include "core/net/system_call.hpp"

namespace capstan::tcp {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress to_system(const Endpoint& endpoint) {
  SocketAddress result;
  if (endpoint.ip.v6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    std::memcpy(&v6.sin6_addr, endpoint.ip.bytes.data(), sizeof(v6.sin6_addr));
    result.length = sizeof(v6);
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    std::memcpy(&v4.sin_addr, endpoint.ip.bytes.data(), sizeof(v4.sin_addr));
    result.length = sizeof(v4);
  }
  return result;
}

Endpoint from_system(SocketAddress& address) {
  Endpoint endpoint;
  endpoint.ip = IpAddress::of(address.get()).value_or(IpAddress{});
  const bool v6 = endpoint.ip.v6;
  endpoint.port = ntohs(v6 ? reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port
                           : reinterpret_cast<sockaddr_in&>(address.storage).sin_port);
  return endpoint;
}

void set(int socket, int level, int option, int value) {
  // One that is refused leaves a connection that works, only less well.
  ::setsockopt(socket, level, option, &value, sizeof(value));
}

bool set_congestion_control(int socket, const std::string& name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

/// BBR begins to pace when a connection is there, and others that take its place do not stop that:
/// so it is chosen before. Connections that a listener accepts take over its own.
FileDescriptor make_socket(const IpAddress& ip, const std::string& congestion_control = {}) {
  FileDescriptor socket{
      ::socket(ip.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (socket.valid() && !congestion_control.empty())
    set_congestion_control(socket.get(), congestion_control);
  return socket;
}

std::string congestion_control_of(int socket) {
  char name[16] = {};  // TCP_CA_NAME_MAX
  socklen_t length = sizeof(name) - 1;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? name : "";
}

std::size_t query(int socket, unsigned long what) {
  int count = 0;
  return ::ioctl(socket, what, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

/// `socket` closed, errno kept.
FileDescriptor failed(FileDescriptor socket) {
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

}  // namespace

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

FileDescriptor listen_on(const IpAddress& ip, const std::string& congestion_control) {
  FileDescriptor socket = make_socket(ip, congestion_control);
  if (!socket.valid()) {
    if (errno == EMFILE || errno == ENFILE) throw_errno("socket", descriptor_remedy);
    return socket;  // a family that this system lacks
  }
  if (ip.v6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SocketAddress address = to_system({ip, 0});
  const bool listens = ::bind(socket.get(), address.get(), address.length) == 0 &&
                       ::listen(socket.get(), SOMAXCONN) == 0;
  return listens ? std::move(socket) : failed(std::move(socket));
}

Endpoint local_endpoint(int socket) {
  SocketAddress address;
  checked(::getsockname(socket, address.get(), &address.length), "getsockname");
  return from_system(address);
}

Accepted accept_from(int listener) {
  SocketAddress address;
  FileDescriptor socket{
      ::accept4(listener, address.get(), &address.length, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (!socket.valid()) return {};
  return {std::move(socket), from_system(address).text()};
}

FileDescriptor begin_connect(const Endpoint& endpoint, const std::string& congestion_control) {
  FileDescriptor socket = make_socket(endpoint.ip, congestion_control);
  if (!socket.valid()) return socket;
  SocketAddress address = to_system(endpoint);
  int result;
  do {
    result = ::connect(socket.get(), address.get(), address.length);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EINPROGRESS || errno == EALREADY) return socket;
  return failed(std::move(socket));
}

int connect_result(int socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

std::string choose_congestion_control(const std::string& wanted) {
  const FileDescriptor socket = make_socket(IpAddress::parse("127.0.0.1").value());
  if (!socket.valid()) return {};
  if (!wanted.empty()) {
    if (set_congestion_control(socket.get(), wanted)) return wanted;
    throw InvalidArgument(
        fmt::format("congestion control \"{}\" is not to be had here: choose one of those in "
                    "/proc/sys/net/ipv4/tcp_allowed_congestion_control",
                    wanted));
  }
  if (!congestion_control_of(socket.get()).starts_with("bbr")) return {};
  constexpr const char* in_every_kernel = "reno";
  return set_congestion_control(socket.get(), in_every_kernel) ? in_every_kernel : "";
}

void tune(int socket, std::chrono::milliseconds timeout) {
  // Not TCP_USER_TIMEOUT: it would also end the connection to a healthy peer that is busy with
  // something else and has not read for that long.
  constexpr int probes = 4;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
  const int interval = static_cast<int>(std::clamp<std::int64_t>(seconds / 2 / probes, 1, 3600));
  const int idle = static_cast<int>(std::clamp<std::int64_t>(seconds - probes * interval, 1, 3600));
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, probes);
}

Flight flight(int socket) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  return {info.tcpi_unacked > 0, info.tcpi_bytes_acked};
}

std::size_t unsent(int socket) {
  return query(socket, SIOCOUTQ);
}

std::size_t available(int socket) {
  return query(socket, FIONREAD);
}

bool send_all(int socket, std::span<const std::byte> message) {
  ssize_t sent;
  do {
    sent = ::send(socket, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0 && static_cast<std::size_t>(sent) < message.size()) errno = EAGAIN;
  return sent == static_cast<ssize_t>(message.size());
}

std::string error_text(int error) {
  return std::generic_category().message(error);
}

}  // namespace capstan::tcp
