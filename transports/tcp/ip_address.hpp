#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::tcp {

/// An IPv4 or IPv6 address.
struct IpAddress {
  std::array<std::byte, 16> bytes{};  // network order; of IPv4 the first four
  bool v6 = false;

  /// Nothing when the text is no numeric address.
  static std::optional<IpAddress> parse(std::string_view text);
  /// Nothing when it is of another family.
  static std::optional<IpAddress> of(const sockaddr* address);

  std::string text() const;
  bool is_loopback() const;
  /// Means something on its own link only (fe80::/10).
  bool is_link_local_v6() const;
  /// Whether the first `prefix` bits are those of `other`, of the same family.
  bool in_same_network(const IpAddress& other, unsigned prefix) const;
  unsigned bits() const { return v6 ? 128 : 32; }

  bool operator==(const IpAddress&) const = default;
};

/// An address of this host.
struct LocalAddress {
  std::string interface;
  IpAddress ip;
  unsigned prefix = 0;  // bits that its network shares
};

/// Those of the interfaces that are up, link-local ones of IPv6 left out. Throws SystemError.
std::vector<LocalAddress> local_addresses();

/// Those that `choice` means: a name ("eth0"), an address or a prefix ("10.0.0.0/8"), all when it
/// is empty. In the order in which they are to be used: loopback comes last. Throws InvalidArgument
/// that lists what there is.
std::vector<LocalAddress> choose(const std::vector<LocalAddress>& addresses,
                                 std::string_view choice);

}  // namespace capstan::tcp
