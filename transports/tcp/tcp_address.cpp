// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/tcp_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace capstan::tcp {
namespace {

constexpr std::uint64_t current_format = 0x3230'7063'7470'6163;  // "captcp02"

}  // namespace

Address TcpAddress::encode() const {
  TcpAddress copy = *this;
  copy.format = current_format;
  Address bytes(sizeof(copy));
  std::memcpy(bytes.data(), &copy, sizeof(copy));
  return bytes;
}

std::optional<TcpAddress> TcpAddress::decode(const Address& address) {
  TcpAddress result;
  if (address.size() != sizeof(result)) return std::nullopt;
  std::memcpy(&result, address.data(), sizeof(result));
  if (result.format != current_format || result.count > most_endpoints) return std::nullopt;
  const auto used = std::span{result.entries}.first(result.count);
  const auto known = [](const Entry& entry) { return entry.family == 4 || entry.family == 6; };
  if (!std::ranges::all_of(used, known)) return std::nullopt;
  return result;
}

void TcpAddress::add(const IpEndpoint& endpoint) {
  entries.at(count++) = {endpoint.ip.bytes, endpoint.port, std::uint16_t(endpoint.ip.v6 ? 6 : 4)};
}

std::vector<IpEndpoint> TcpAddress::endpoints() const {
  std::vector<IpEndpoint> result;
  for (const Entry& entry : std::span{entries}.first(count)) {
    result.push_back({{entry.ip, entry.family == 6}, entry.port});
  }
  return result;
}

std::vector<IpEndpoint> order_to_try(const TcpAddress& own, std::span<const HostAddress> local,
                                     const TcpAddress& peer) {
  const auto distance = [&](const IpEndpoint& endpoint) {
    if (endpoint.ip.is_loopback()) return 0;
    const auto shares_network = [&](const HostAddress& mine) {
      return mine.ip.in_same_network(endpoint.ip, mine.prefix);
    };
    const auto same_family = [&](const HostAddress& mine) {
      return mine.ip.v6 == endpoint.ip.v6 && !mine.ip.is_loopback();
    };
    if (std::ranges::any_of(local, shares_network)) return 1;
    return std::ranges::any_of(local, same_family) ? 2 : 3;
  };
  const bool same_host = own.host == peer.host;
  const std::vector<IpEndpoint> endpoints = peer.endpoints();
  std::vector<IpEndpoint> order;
  for (const int wanted : {0, 1, 2, 3}) {
    std::ranges::copy_if(endpoints, std::back_inserter(order), [&](const IpEndpoint& endpoint) {
      return distance(endpoint) == wanted && (same_host || !endpoint.ip.is_loopback());
    });
  }
  return order;
}

}  // namespace capstan::tcp
