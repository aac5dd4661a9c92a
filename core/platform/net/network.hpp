// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/platform/net/ip_address.hpp"

namespace capstan {

/// An address that an interface of this host has.
struct HostAddress {
  std::string interface;  ///< "eth0"
  IpAddress ip;
  unsigned prefix = 0;  ///< bits that its network shares
  bool up = true;       ///< the interface is switched on
  bool running = true;  ///< and connected
  bool loopback = false;

  std::string text() const { return ip.text(); }
};

/// All addresses of this host in the system's order, without link-local ones (fe80::). Throws
/// SystemError.
std::vector<HostAddress> host_addresses();

/// An address and the rule that led to it, for people to read.
struct ChosenAddress {
  HostAddress address;
  std::string reason;
};

/// The addresses under which ranks on other hosts may reach this one, the best first. `wanted` is
/// the setting CAPSTAN_INTERFACE: the name of an interface, an address, or a network
/// ("192.0.2.0/24", "::/0") that addresses must be in, or several of these with commas between
/// them, the best first; empty: all that are up. Within each of these, connected interfaces go
/// before others, those of containers and virtual machines come after them, loopback last, and IPv4
/// goes before IPv6; else the system's order stays.
///
/// Throws InvalidArgument that lists what there is if nothing fits.
std::vector<HostAddress> choose_addresses(std::string_view wanted,
                                          std::span<const HostAddress> addresses);

/// The first of them, with the reason.
ChosenAddress choose_address(std::string_view wanted, std::span<const HostAddress> addresses);

/// Chooses among host_addresses().
ChosenAddress choose_address(std::string_view wanted);

}  // namespace capstan
