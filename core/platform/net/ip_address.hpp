// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace capstan {

/// An IPv4 or IPv6 address.
struct IpAddress {
  std::array<std::byte, 16> bytes{};  ///< network order; of IPv4 the first four
  bool v6 = false;

  /// Nothing when the text is no numeric address.
  static std::optional<IpAddress> parse(std::string_view text);
  /// Nothing when the address is of another family.
  static std::optional<IpAddress> of(const sockaddr* address);

  std::string text() const;
  bool is_loopback() const;
  /// Whether the address is valid on its own link only (fe80::/10).
  bool is_link_local_v6() const;
  /// Whether the first `prefix` bits are those of `other`, of the same family.
  bool in_same_network(const IpAddress& other, unsigned prefix) const;
  unsigned bits() const { return v6 ? 128 : 32; }

  bool operator==(const IpAddress&) const = default;
};

/// The addresses that agree in their first bits: "192.0.2.0/24".
struct IpNetwork {
  IpAddress ip;
  unsigned prefix = 0;  ///< bits that count

  /// A network, or an address, which is a network of one. Nothing when the text is neither.
  static std::optional<IpNetwork> parse(std::string_view text);
  bool contains(const IpAddress& address) const { return address.in_same_network(ip, prefix); }
};

}  // namespace capstan
