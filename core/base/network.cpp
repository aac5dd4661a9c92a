#include "core/base/network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>

#include "core/ir/error.hpp"

namespace capstan {
namespace {

/// An address's bits, and how many of them count.
struct Network {
  int family = AF_INET;
  std::array<unsigned char, 16> bytes{};
  int bits = 32;
};

std::optional<Network> parse_address(std::string_view text) {
  const std::string copy{text};
  Network parsed;
  if (::inet_pton(AF_INET, copy.c_str(), parsed.bytes.data()) == 1) return parsed;
  parsed.family = AF_INET6;
  parsed.bits = 128;
  if (::inet_pton(AF_INET6, copy.c_str(), parsed.bytes.data()) == 1) return parsed;
  return std::nullopt;
}

/// "192.0.2.0/24", or an address, which is a network of one.
std::optional<Network> parse_network(std::string_view text) {
  const auto slash = text.find('/');
  auto network = parse_address(text.substr(0, slash));
  if (!network || slash == text.npos) return network;
  const auto digits = text.substr(slash + 1);
  int bits = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (error != std::errc{} || end != digits.data() + digits.size() || bits < 0 ||
      bits > network->bits)
    return std::nullopt;
  network->bits = bits;
  return network;
}

bool contains(const Network& network, const HostAddress& address) {
  const auto other = parse_address(address.text);
  if (!other || other->family != network.family) return false;
  const auto whole = static_cast<std::size_t>(network.bits / 8);
  if (!std::equal(network.bytes.begin(), network.bytes.begin() + whole, other->bytes.begin()))
    return false;
  const int rest = network.bits % 8;
  return rest == 0 || (network.bytes[whole] ^ other->bytes[whole]) >> (8 - rest) == 0;
}

/// Interfaces which containers and virtual machines leave on their host.
bool is_inner(const std::string& interface) {
  constexpr std::array<std::string_view, 6> prefixes{"docker", "virbr", "br-",
                                                     "veth",   "cni",   "flannel"};
  return std::ranges::any_of(prefixes, [&](auto prefix) { return interface.starts_with(prefix); });
}

std::string list(std::span<const HostAddress> addresses) {
  std::string text;
  for (const HostAddress& a : addresses)
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", a.interface, a.text,
                        a.up ? "" : " (down)");
  return text.empty() ? "none" : text;
}

[[noreturn]] void nothing_fits(std::string_view wanted, std::string_view why,
                               std::span<const HostAddress> addresses) {
  throw InvalidArgument(fmt::format(
      "CAPSTAN_INTERFACE is \"{}\": {}: name an interface, an address or a network such as "
      "192.0.2.0/24 that all hosts of the job share; this host has: {}",
      wanted, why, list(addresses)));
}

/// The best of those that `fits` holds for. Connected before not, and so on; else the first one.
template <class Fits>
const HostAddress* best(std::span<const HostAddress> addresses, Fits fits) {
  const auto rank = [](const HostAddress& a) {
    return std::tuple{a.loopback, !a.running, is_inner(a.interface), a.is_v6()};
  };
  const HostAddress* found = nullptr;
  for (const HostAddress& a : addresses)
    if (a.up && fits(a) && (!found || rank(a) < rank(*found))) found = &a;
  return found;
}

ChosenAddress choose_any(std::span<const HostAddress> addresses) {
  const auto* found = best(addresses, [](const auto&) { return true; });
  if (!found) nothing_fits("", "no interface of this host is up", addresses);
  if (found->loopback) return {*found, "nothing else is up: other hosts cannot reach it"};
  return {*found, found->running ? "the first that is up and connected"
                                 : "up, though no interface is connected"};
}

}  // namespace

std::vector<HostAddress> host_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    throw SystemError(fmt::format("cannot list the interfaces of this host: getifaddrs(): {}",
                                  std::strerror(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{first, ::freeifaddrs};
  std::vector<HostAddress> addresses;
  for (const ifaddrs* entry = first; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
    char text[INET6_ADDRSTRLEN] = "";
    const void* bytes = family == AF_INET ? static_cast<const void*>(&v4->sin_addr)
                                          : static_cast<const void*>(&v6->sin6_addr);
    ::inet_ntop(family, bytes, text, sizeof text);
    addresses.push_back({.interface = entry->ifa_name,
                         .text = text,
                         .up = (entry->ifa_flags & IFF_UP) != 0,
                         .running = (entry->ifa_flags & IFF_RUNNING) != 0,
                         .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

ChosenAddress choose_address(std::string_view wanted, std::span<const HostAddress> addresses) {
  if (wanted.empty()) return choose_any(addresses);
  const auto of_interface = [&](const HostAddress& a) { return a.interface == wanted; };
  const auto network = parse_network(wanted);
  if (!network && wanted.find('/') != wanted.npos)
    nothing_fits(wanted, "not a network (an address, a slash and how many bits count)", addresses);
  if (network) {
    const auto inside = [&](const HostAddress& a) { return contains(*network, a); };
    if (const auto* found = best(addresses, inside)) return {*found, "CAPSTAN_INTERFACE names it"};
    nothing_fits(wanted, "no address of this host that is up is in it", addresses);
  }
  if (const auto* found = best(addresses, of_interface))
    return {*found, "CAPSTAN_INTERFACE names its interface"};
  const bool down = std::ranges::any_of(addresses, of_interface);
  nothing_fits(wanted,
               down ? "this interface is down" : "there is no such interface with an address",
               addresses);
}

ChosenAddress choose_address(std::string_view wanted) {
  return choose_address(wanted, host_addresses());
}

}  // namespace capstan
