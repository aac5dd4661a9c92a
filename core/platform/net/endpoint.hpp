// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/platform/net/ip_address.hpp"

namespace capstan {

/// A numeric address and a port.
struct IpEndpoint {
  IpAddress ip;
  std::uint16_t port = 0;

  /// "10.0.0.1:4711", "[::1]:4711".
  std::string text() const;
};

/// A host name or a numeric IPv4 or IPv6 address, and a port. Port 0: the system chooses one.
struct TcpEndpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  bool operator==(const TcpEndpoint&) const = default;
};

/// A name in Linux's abstract Unix socket namespace: seen on this host only (by processes of the
/// same network namespace) and gone with the last process that listens on it.
struct AbstractEndpoint {
  std::string name;
  bool operator==(const AbstractEndpoint&) const = default;
};

using SocketEndpoint = std::variant<TcpEndpoint, AbstractEndpoint>;

/// "127.0.0.1:4711", "[::1]:4711", "@capstan-0-1f...".
std::string to_string(const SocketEndpoint& endpoint);

/// Reads "host:port" or "[address]:port". Throws InvalidArgument that names `source`, the
/// variable or option which `text` comes from.
TcpEndpoint parse_endpoint(std::string_view text, std::string_view source);

/// An address as the system's calls take it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;

  static SocketAddress of(const IpEndpoint& endpoint);

  int family() const { return storage.ss_family; }
  bool is_loopback() const;
  bool is_wildcard() const;
  /// The numeric endpoint.
  SocketEndpoint endpoint() const;
  /// The numeric endpoint, without the interface that a link-local address may have.
  IpEndpoint ip_endpoint() const;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// All addresses of an endpoint, at least one. Throws SystemError if the name is unknown.
std::vector<SocketAddress> resolve(const SocketEndpoint& endpoint);

}  // namespace capstan
