// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/platform/net/endpoint.hpp"
#include "core/platform/net/job_key.hpp"
#include "core/platform/net/network.hpp"
#include "transports/transport.hpp"

namespace capstan::tcp {

/// The content of an Address: the endpoints of one rank. Nothing in it is secret.
struct TcpAddress {
  static constexpr std::size_t most_endpoints = 8;

  Address encode() const;
  /// Nothing when `address` was not made by encode() of this version.
  static std::optional<TcpAddress> decode(const Address& address);

  void add(const IpEndpoint& endpoint);
  std::vector<IpEndpoint> endpoints() const;

  struct Entry {
    std::array<std::byte, 16> ip{};
    std::uint16_t port = 0;
    std::uint16_t family = 0;  // 4 or 6
  };

  std::uint64_t format = 0;
  std::uint64_t host = 0;  // tells hosts, and network namespaces of one host, apart
  JobKey::TransportId id{};
  std::uint64_t count = 0;
  std::array<Entry, most_endpoints> entries{};
};
static_assert(std::has_unique_object_representations_v<TcpAddress>, "encoded as its bytes");
static_assert(sizeof(TcpAddress) <= 400);

/// The endpoints of `peer` in the order in which a rank with the address `own` on a host with the
/// addresses `local` tries them: loopback if and only if both are on one host, then endpoints in a
/// network that both share, then endpoints of a family that both have.
std::vector<IpEndpoint> order_to_try(const TcpAddress& own, std::span<const HostAddress> local,
                                     const TcpAddress& peer);

}  // namespace capstan::tcp
