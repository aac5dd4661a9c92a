// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/ip_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace capstan {

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string copy{text};
  IpAddress ip;
  ip.v6 = copy.find(':') != std::string::npos;
  if (::inet_pton(ip.v6 ? AF_INET6 : AF_INET, copy.c_str(), ip.bytes.data()) != 1)
    return std::nullopt;
  return ip;
}

std::optional<IpAddress> IpAddress::of(const sockaddr* address) {
  IpAddress ip;
  if (address->sa_family == AF_INET) {
    std::memcpy(ip.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    ip.v6 = true;
    std::memcpy(ip.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  } else {
    return std::nullopt;
  }
  return ip;
}

std::string IpAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size());
  return text.data();
}

bool IpAddress::is_loopback() const {
  static const IpAddress v4_loopback = *parse("127.0.0.0"), v6_loopback = *parse("::1");
  return v6 ? *this == v6_loopback : in_same_network(v4_loopback, 8);
}

bool IpAddress::is_link_local_v6() const {
  static const IpAddress link_local = *parse("fe80::");
  return in_same_network(link_local, 10);
}

bool IpAddress::in_same_network(const IpAddress& other, unsigned prefix) const {
  if (v6 != other.v6) return false;
  const std::size_t whole = prefix / 8;
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                  other.bytes.begin()))
    return false;
  const unsigned rest = prefix % 8;
  return rest == 0 ||
         std::to_integer<unsigned>(bytes[whole] ^ other.bytes[whole]) >> (8 - rest) == 0;
}

std::optional<IpNetwork> IpNetwork::parse(std::string_view text) {
  const auto slash = text.find('/');
  const auto ip = IpAddress::parse(text.substr(0, slash));
  if (!ip) return std::nullopt;
  if (slash == std::string_view::npos) return IpNetwork{*ip, ip->bits()};
  unsigned prefix = 0;
  const auto digits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  if (error != std::errc{} || end != digits.data() + digits.size() || prefix > ip->bits())
    return std::nullopt;
  return IpNetwork{*ip, prefix};
}

}  // namespace capstan
