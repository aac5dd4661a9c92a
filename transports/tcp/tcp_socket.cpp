// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/tcp_socket.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>

#include "capstan/error.hpp"

namespace capstan::tcp {
namespace {

bool set_congestion_control(const FileDescriptor& socket, const std::string& name) {
  return ::setsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(),
                      static_cast<socklen_t>(name.size())) == 0;
}

std::string congestion_control_of(const FileDescriptor& socket) {
  char name[16] = {};  // TCP_CA_NAME_MAX
  socklen_t length = sizeof(name) - 1;
  return ::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? name : "";
}

std::size_t query(int socket, unsigned long what) {
  int count = 0;
  return ::ioctl(socket, what, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

/// Closes `socket`, and keeps errno.
FileDescriptor failed(FileDescriptor socket) {
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

}  // namespace

FileDescriptor make_socket(const IpAddress& ip, const std::string& congestion_control) {
  FileDescriptor socket = capstan::make_socket(ip.v6 ? AF_INET6 : AF_INET);
  // BBR begins to pace when a connection is made, and an algorithm that is set later does not stop
  // that. So the algorithm is set before. A listener's connections inherit it.
  if (socket.valid() && !congestion_control.empty())
    set_congestion_control(socket, congestion_control);
  return socket;
}

FileDescriptor listen_on(const IpAddress& ip, const std::string& congestion_control) {
  FileDescriptor socket = make_socket(ip, congestion_control);
  if (!socket.valid()) {
    require_descriptors(errno);
    return socket;  // this system lacks the family
  }
  const bool listens = start_listening(socket, SocketAddress::of({ip, 0}));
  return listens ? std::move(socket) : failed(std::move(socket));
}

FileDescriptor begin_connect(const IpEndpoint& endpoint, const std::string& congestion_control) {
  FileDescriptor socket = make_socket(endpoint.ip, congestion_control);
  if (!socket.valid() || start_connecting(socket, SocketAddress::of(endpoint))) return socket;
  return failed(std::move(socket));
}

std::string choose_congestion_control(const std::string& wanted) {
  const FileDescriptor socket = make_socket(IpAddress::parse("127.0.0.1").value());
  if (!socket.valid()) return {};
  if (!wanted.empty()) {
    if (set_congestion_control(socket, wanted)) return wanted;
    throw InvalidArgument(
        fmt::format("congestion control \"{}\" is not to be had here: choose one of those in "
                    "/proc/sys/net/ipv4/tcp_allowed_congestion_control",
                    wanted));
  }
  if (!congestion_control_of(socket).starts_with("bbr")) return {};
  constexpr const char* in_every_kernel = "reno";
  return set_congestion_control(socket, in_every_kernel) ? in_every_kernel : "";
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

}  // namespace capstan::tcp
