#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/net/network.hpp"
#include "transports/tcp/handshake.hpp"
#include "transports/transport.hpp"

namespace capstan::tcp {

/// An address and a port that something listens on.
struct Endpoint {
  IpAddress ip;
  std::uint16_t port = 0;

  /// "10.0.0.1:4711", "[::1]:4711".
  std::string text() const;
};

/// Where one rank can be reached, and how to recognise it. What Address carries.
struct TcpAddress {
  static constexpr std::size_t most_endpoints = 8;

  Address encode() const;
  /// Nothing when `address` was not made by encode() of this version.
  static std::optional<TcpAddress> decode(const Address& address);

  void add(const Endpoint& endpoint);
  std::vector<Endpoint> endpoints() const;

  struct Entry {
    std::array<std::byte, 16> ip{};
    std::uint16_t port = 0;
    std::uint16_t family = 0;  // 4 or 6
  };

  std::uint64_t format = 0;
  std::uint64_t host = 0;  // tells hosts, and network namespaces of one host, apart
  Token token{};
  std::uint64_t count = 0;
  std::array<Entry, most_endpoints> entries{};
};
static_assert(std::has_unique_object_representations_v<TcpAddress>, "encoded as its bytes");
static_assert(sizeof(TcpAddress) <= 400);

/// The endpoints of `peer` in the order in which a rank with the address `own` on a host with the
/// addresses `local` tries them: loopback where both are on one host and never else, then those in
/// a network that they share, then those of a family that both have.
std::vector<Endpoint> order_to_try(const TcpAddress& own, std::span<const HostAddress> local,
                                   const TcpAddress& peer);

}  // namespace capstan::tcp
