#include "core/bootstrap/socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include "capstan/error.hpp"

namespace capstan {
namespace {

sockaddr* generic(sockaddr_storage& storage) {
  return reinterpret_cast<sockaddr*>(&storage);
}
const sockaddr* generic(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr*>(&storage);
}
template <class T>
const T& as(const SocketAddress& address) {
  return reinterpret_cast<const T&>(address.storage);
}

bool set(const FileDescriptor& socket, int level, int option, int value) {
  return ::setsockopt(socket.get(), level, option, &value, sizeof value) == 0;
}

FileDescriptor make_socket(int family) {
  FileDescriptor socket{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket.valid()) {
    throw SystemError(fmt::format("socket(): {}{}", std::strerror(errno),
                                  errno == EMFILE ? ": raise the limit (ulimit -n)" : ""));
  }
  return socket;
}

std::vector<SocketAddress> resolve_abstract(const std::string& name) {
  SocketAddress address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
  if (name.size() + 1 > sizeof un.sun_path) {
    throw InvalidArgument(fmt::format("a Unix socket name of {} bytes: use up to {}", name.size(),
                                      sizeof un.sun_path - 1));
  }
  un.sun_family = AF_UNIX;
  std::ranges::copy(name, un.sun_path + 1);  // a leading NUL byte marks the abstract namespace
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return {address};
}

std::vector<SocketAddress> resolve_tcp(const TcpEndpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const auto port = std::to_string(endpoint.port);
  if (const int code = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &list)) {
    throw SystemError(
        fmt::format("the host \"{}\" cannot be resolved: {}: check its name, or give "
                    "a numeric address",
                    endpoint.host, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{list, ::freeaddrinfo};
  std::vector<SocketAddress> addresses;
  for (const addrinfo* info = list; info; info = info->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
  }
  return addresses;
}

std::string remedy_for_bind(int error, const Endpoint& endpoint) {
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

/// A listening socket, or an empty one and errno.
FileDescriptor try_listen(const SocketAddress& address) {
  FileDescriptor socket = make_socket(address.family());
  // Connections of an earlier server linger in TIME_WAIT and would otherwise keep its port busy.
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  const bool bound = ::bind(socket.get(), generic(address.storage), address.length) == 0 &&
                     ::listen(socket.get(), SOMAXCONN) == 0;
  if (!bound) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

int pending_error(const FileDescriptor& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  if (const auto* local = std::get_if<AbstractEndpoint>(&endpoint)) return "@" + local->name;
  const auto& [host, port] = std::get<TcpEndpoint>(endpoint);
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

TcpEndpoint parse_endpoint(std::string_view text, std::string_view source) {
  const auto refuse = [&](std::string_view why) {
    throw InvalidArgument(
        fmt::format("{} is \"{}\": {}: write host:port, such as 192.0.2.1:4711 or [fd00::1]:4711",
                    source, text, why));
  };
  const auto colon = text.rfind(':');
  const bool ends_in_bracket = text.ends_with(']');
  if (colon == text.npos || ends_in_bracket) refuse("it has no port");
  auto host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) refuse("it has no host");
  if (!bracketed && host.find(':') != host.npos) refuse("an IPv6 address goes in brackets");
  if (host.find_first_of("[] \t") != host.npos || (bracketed && host.find(':') == host.npos))
    refuse("only an IPv6 address goes in brackets");
  const auto digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port == 0)
    refuse("a port is a number from 1 to 65535");
  return {std::string{host}, port};
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&as<sockaddr_in6>(*this).sin6_addr);
  return family() == AF_INET && (ntohl(as<sockaddr_in>(*this).sin_addr.s_addr) >> 24) == 127;
}

bool SocketAddress::is_wildcard() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&as<sockaddr_in6>(*this).sin6_addr);
  return family() == AF_INET && as<sockaddr_in>(*this).sin_addr.s_addr == htonl(INADDR_ANY);
}

Endpoint SocketAddress::endpoint() const {
  if (family() == AF_UNIX) {
    const auto skip = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1);
    if (length <= skip) return AbstractEndpoint{};
    return AbstractEndpoint{{as<sockaddr_un>(*this).sun_path + 1, length - skip}};
  }
  // Unlike inet_ntop, this keeps the interface of an address that has one (fe80::1%eth0).
  char text[NI_MAXHOST] = "";
  ::getnameinfo(generic(storage), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  const bool v6 = family() == AF_INET6;
  const auto port = v6 ? as<sockaddr_in6>(*this).sin6_port : as<sockaddr_in>(*this).sin_port;
  return TcpEndpoint{text, ntohs(port)};
}

std::vector<SocketAddress> resolve(const Endpoint& endpoint) {
  if (const auto* local = std::get_if<AbstractEndpoint>(&endpoint)) {
    return resolve_abstract(local->name);
  }
  return resolve_tcp(std::get<TcpEndpoint>(endpoint));
}

FileDescriptor listen_on(const Endpoint& endpoint) {
  int error = 0;
  for (const auto& address : resolve(endpoint)) {
    FileDescriptor socket = try_listen(address);
    if (socket.valid()) return socket;
    error = errno;
  }
  throw SystemError(fmt::format("cannot listen on {}: {}: {}", to_string(endpoint),
                                std::strerror(error), remedy_for_bind(error, endpoint)));
}

SocketAddress local_address(const FileDescriptor& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getsockname(socket.get(), generic(address.storage), &address.length) != 0) {
    throw SystemError(fmt::format("getsockname(): {}", std::strerror(errno)));
  }
  return address;
}

uid_t peer_uid(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    throw SystemError(fmt::format("getsockopt(SO_PEERCRED): {}", std::strerror(errno)));
  }
  return credentials.uid;
}

Connected connect_to(const SocketAddress& address, Deadline deadline) {
  FileDescriptor socket = make_socket(address.family());
  int result;
  do {
    result = ::connect(socket.get(), generic(address.storage), address.length);
  } while (result != 0 && errno == EINTR);
  int error = result == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EALREADY) {
    error = wait_for(socket, POLLOUT, deadline) ? pending_error(socket) : ETIMEDOUT;
  }
  if (error != 0 && error != EISCONN) return {{}, error};
  return {std::move(socket), 0};
}

void tune(const FileDescriptor& socket, int family) {
  if (family == AF_UNIX) return;
  // A socket that refuses these still works, only slower to answer or to notice a dead host.
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool wait_for(const FileDescriptor& socket, short events, Deadline deadline) {
  pollfd entry{socket.get(), events, 0};
  while (true) {
    const int ready = ::poll(&entry, 1, deadline.poll_timeout());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) {
      throw SystemError(fmt::format("poll(): {}", std::strerror(errno)));
    }
    if (deadline.expired()) return false;
  }
}

}  // namespace capstan
