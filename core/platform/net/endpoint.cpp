// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/endpoint.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include "capstan/error.hpp"

namespace capstan {
namespace {

template <class T>
const T& as(const SocketAddress& address) {
  return reinterpret_cast<const T&>(address.storage);
}

std::uint16_t port_of(const SocketAddress& address) {
  return ntohs(address.family() == AF_INET6 ? as<sockaddr_in6>(address).sin6_port
                                            : as<sockaddr_in>(address).sin_port);
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

}  // namespace

std::string IpEndpoint::text() const {
  return fmt::format(fmt::runtime(ip.v6 ? "[{}]:{}" : "{}:{}"), ip.text(), port);
}

std::string to_string(const SocketEndpoint& endpoint) {
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

SocketAddress SocketAddress::of(const IpEndpoint& endpoint) {
  SocketAddress result;
  if (endpoint.ip.v6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(result.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    std::memcpy(&v6.sin6_addr, endpoint.ip.bytes.data(), sizeof v6.sin6_addr);
    result.length = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(result.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    std::memcpy(&v4.sin_addr, endpoint.ip.bytes.data(), sizeof v4.sin_addr);
    result.length = sizeof v4;
  }
  return result;
}

IpEndpoint SocketAddress::ip_endpoint() const {
  return {IpAddress::of(get()).value_or(IpAddress{}), port_of(*this)};
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&as<sockaddr_in6>(*this).sin6_addr);
  return family() == AF_INET && (ntohl(as<sockaddr_in>(*this).sin_addr.s_addr) >> 24) == 127;
}

bool SocketAddress::is_wildcard() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&as<sockaddr_in6>(*this).sin6_addr);
  return family() == AF_INET && as<sockaddr_in>(*this).sin_addr.s_addr == htonl(INADDR_ANY);
}

SocketEndpoint SocketAddress::endpoint() const {
  if (family() == AF_UNIX) {
    const auto skip = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1);
    if (length <= skip) return AbstractEndpoint{};
    return AbstractEndpoint{{as<sockaddr_un>(*this).sun_path + 1, length - skip}};
  }
  // Unlike inet_ntop, this keeps the interface of an address that has one (fe80::1%eth0).
  char text[NI_MAXHOST] = "";
  ::getnameinfo(get(), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return TcpEndpoint{text, port_of(*this)};
}

std::vector<SocketAddress> resolve(const SocketEndpoint& endpoint) {
  if (const auto* local = std::get_if<AbstractEndpoint>(&endpoint)) {
    return resolve_abstract(local->name);
  }
  return resolve_tcp(std::get<TcpEndpoint>(endpoint));
}

}  // namespace capstan
