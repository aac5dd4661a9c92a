#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

/// A numeric address that an interface of this host has.
struct HostAddress {
  std::string interface;  ///< "eth0"
  std::string text;       ///< "192.0.2.7", "fd00::7"
  bool up = true;         ///< the interface is switched on
  bool running = true;    ///< and connected
  bool loopback = false;

  bool is_v6() const { return text.find(':') != std::string::npos; }
};

/// All addresses of this host in the system's order, without those that mean nothing beyond one
/// link (fe80::). Throws SystemError.
std::vector<HostAddress> host_addresses();

/// An address and the rule that led to it, for people to read.
struct ChosenAddress {
  HostAddress address;
  std::string reason;
};

/// The address under which ranks on other hosts are to reach this one. `wanted` is the setting
/// CAPSTAN_INTERFACE: the name of an interface, an address, or a network ("192.0.2.0/24", "::/0")
/// that the address must be in. Empty: the first address that is up, where connected interfaces go
/// before others, those of containers and virtual machines come last, and IPv4 goes before IPv6;
/// loopback if there is nothing else.
///
/// Throws InvalidArgument that lists what there is if nothing fits.
ChosenAddress choose_address(std::string_view wanted, std::span<const HostAddress> addresses);

/// The same among host_addresses().
ChosenAddress choose_address(std::string_view wanted);

}  // namespace capstan
