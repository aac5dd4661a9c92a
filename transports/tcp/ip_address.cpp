#include "transports/tcp/ip_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>

#include "core/ir/error.hpp"
#include "transports/system_call.hpp"
#include "transports/tcp/socket.hpp"

namespace capstan::tcp {
namespace {

unsigned prefix_of(const sockaddr* netmask) {
  const auto mask = netmask ? IpAddress::of(netmask) : std::nullopt;
  if (!mask) return 0;
  unsigned bits = 0;
  for (const std::byte b : std::span{mask->bytes}.first(mask->bits() / 8))
    bits += std::popcount(std::to_integer<unsigned>(b));
  return bits;
}

struct Network {
  IpAddress ip;
  unsigned prefix;
};

/// "10.0.0.0/8", or one address. Nothing when it is neither.
std::optional<Network> parse_network(std::string_view text) {
  const auto slash = text.find('/');
  const auto ip = IpAddress::parse(text.substr(0, slash));
  if (!ip) return std::nullopt;
  if (slash == std::string_view::npos) return Network{*ip, ip->bits()};
  unsigned prefix = 0;
  const auto digits = text.substr(slash + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  if (error != std::errc{} || end != digits.data() + digits.size() || prefix > ip->bits()) {
    return std::nullopt;
  }
  return Network{*ip, prefix};
}

std::string list(std::span<const LocalAddress> addresses) {
  std::string text;
  for (const LocalAddress& a : addresses) {
    text +=
        fmt::format("{}{} ({}/{})", text.empty() ? "" : ", ", a.interface, a.ip.text(), a.prefix);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

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

std::vector<LocalAddress> local_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    throw_errno("getifaddrs", errno == EMFILE || errno == ENFILE ? descriptor_remedy : "");
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{first, ::freeifaddrs};
  std::vector<LocalAddress> found;
  for (const ifaddrs* entry = first; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP)) continue;
    const auto ip = IpAddress::of(entry->ifa_addr);
    if (ip && !ip->is_link_local_v6()) {
      found.push_back({entry->ifa_name, *ip, prefix_of(entry->ifa_netmask)});
    }
  }
  return found;
}

std::vector<LocalAddress> choose(const std::vector<LocalAddress>& addresses,
                                 std::string_view choice) {
  const auto network = parse_network(choice);
  const auto meant = [&](const LocalAddress& address) {
    return choice.empty() || address.interface == choice ||
           (network && address.ip.in_same_network(network->ip, network->prefix));
  };
  std::vector<LocalAddress> chosen;
  for (const bool loopback : {false, true}) {
    std::ranges::copy_if(addresses, std::back_inserter(chosen), [&](const LocalAddress& address) {
      return meant(address) && address.ip.is_loopback() == loopback;
    });
  }
  if (chosen.empty()) {
    throw InvalidArgument(
        fmt::format("no address of this host is of the interface \"{}\": give a name, an address "
                    "or a prefix of {}",
                    choice, list(addresses)));
  }
  return chosen;
}

}  // namespace capstan::tcp
