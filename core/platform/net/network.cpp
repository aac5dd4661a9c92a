// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/network.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>

#include "capstan/error.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

/// Interfaces which containers and virtual machines leave on their host.
bool is_inner(const std::string& interface) {
  constexpr std::array<std::string_view, 6> prefixes{"docker", "virbr", "br-",
                                                     "veth",   "cni",   "flannel"};
  return std::ranges::any_of(prefixes, [&](auto prefix) { return interface.starts_with(prefix); });
}

std::string list(std::span<const HostAddress> addresses) {
  std::string text;
  for (const HostAddress& a : addresses)
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", a.interface, a.text(),
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

unsigned prefix_of(const sockaddr* netmask) {
  const auto mask = netmask ? IpAddress::of(netmask) : std::nullopt;
  if (!mask) return 0;
  unsigned bits = 0;
  for (const std::byte b : std::span{mask->bytes}.first(mask->bits() / 8))
    bits += static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(b)));
  return bits;
}

std::string_view why_any(const HostAddress& found) {
  if (found.loopback) return "nothing else is up: other hosts cannot reach it";
  return found.running ? "the first that is up and connected"
                       : "up, though no interface is connected";
}

}  // namespace

std::vector<HostAddress> host_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    const int error = errno;
    throw SystemError(fmt::format("cannot list the interfaces of this host: getifaddrs(): {}; {}",
                                  std::strerror(error), limit_behind(error)));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{first, ::freeifaddrs};
  std::vector<HostAddress> addresses;
  for (const ifaddrs* entry = first; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr) continue;
    const auto ip = IpAddress::of(entry->ifa_addr);
    if (!ip || ip->is_link_local_v6()) continue;
    addresses.push_back({.interface = entry->ifa_name,
                         .ip = *ip,
                         .prefix = prefix_of(entry->ifa_netmask),
                         .up = (entry->ifa_flags & IFF_UP) != 0,
                         .running = (entry->ifa_flags & IFF_RUNNING) != 0,
                         .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

namespace {

/// The items of a list with commas between them. An empty list has one empty item.
std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) parts.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

/// The addresses that one name, address or network stands for.
std::vector<HostAddress> choose_by_one(std::string_view wanted,
                                       std::span<const HostAddress> addresses) {
  const auto network = IpNetwork::parse(wanted);
  if (!network && wanted.find('/') != wanted.npos)
    nothing_fits(wanted, "not a network (an address, a slash and how many bits count)", addresses);
  const auto of_interface = [&](const HostAddress& a) { return a.interface == wanted; };
  const auto fits = [&](const HostAddress& a) {
    return a.up && (wanted.empty() || of_interface(a) || (network && network->contains(a.ip)));
  };
  const auto rank = [](const HostAddress& a) {
    return std::tuple{a.loopback, !a.running, is_inner(a.interface), a.ip.v6};
  };
  std::vector<HostAddress> chosen;
  for (const HostAddress& a : addresses)
    if (fits(a)) chosen.insert(std::ranges::upper_bound(chosen, rank(a), {}, rank), a);
  if (!chosen.empty()) return chosen;
  if (wanted.empty()) nothing_fits(wanted, "no interface of this host is up", addresses);
  if (network) nothing_fits(wanted, "no address of this host that is up is in it", addresses);
  const bool down = std::ranges::any_of(addresses, of_interface);
  nothing_fits(wanted,
               down ? "this interface is down" : "there is no such interface with an address",
               addresses);
}

}  // namespace

std::vector<HostAddress> choose_addresses(std::string_view wanted,
                                          std::span<const HostAddress> addresses) {
  std::vector<HostAddress> chosen;
  for (const std::string_view part : parts_of(wanted)) {
    for (const HostAddress& a : choose_by_one(part, addresses)) {
      const auto is_same = [&](const HostAddress& other) {
        return other.interface == a.interface && other.ip == a.ip;
      };
      if (std::ranges::none_of(chosen, is_same)) chosen.push_back(a);
    }
  }
  return chosen;
}

ChosenAddress choose_address(std::string_view wanted, std::span<const HostAddress> addresses) {
  const HostAddress found = choose_addresses(wanted, addresses).front();
  if (wanted.empty()) return {found, std::string{why_any(found)}};
  return {found, std::ranges::count(parts_of(wanted), found.interface) > 0
                     ? "CAPSTAN_INTERFACE names its interface"
                     : "CAPSTAN_INTERFACE names it"};
}

ChosenAddress choose_address(std::string_view wanted) {
  return choose_address(wanted, host_addresses());
}

}  // namespace capstan
