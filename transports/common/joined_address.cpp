// SPDX-License-Identifier: Apache-2.0
#include "transports/common/joined_address.hpp"

#include <cstdint>
#include <cstring>

namespace capstan {
namespace {

struct Head {
  static constexpr std::uint32_t joined = 0x6e69'6f6a;  // "join" on this machine
  std::uint32_t kind = joined;
  std::uint32_t count = 0;
};

void append(Address& to, const void* bytes, std::size_t size) {
  if (size == 0) return;
  to.resize(to.size() + size);
  std::memcpy(to.data() + (to.size() - size), bytes, size);
}

/// Takes an object off the front of `bytes`. False if `bytes` are too short.
template <class T>
bool take(std::span<const std::byte>& bytes, T& object) {
  if (bytes.size() < sizeof object) return false;
  std::memcpy(&object, bytes.data(), sizeof object);
  bytes = bytes.subspan(sizeof object);
  return true;
}

}  // namespace

Address join_addresses(const std::vector<Address>& addresses) {
  const Head head{.count = static_cast<std::uint32_t>(addresses.size())};
  Address joined;
  append(joined, &head, sizeof head);
  for (const Address& address : addresses) {
    const auto size = static_cast<std::uint32_t>(address.size());
    append(joined, &size, sizeof size);
    append(joined, address.data(), address.size());
  }
  return joined;
}

std::vector<Address> split_addresses(std::span<const std::byte> address, std::size_t count) {
  Head head;
  if (!take(address, head) || head.kind != Head::joined || head.count != count) return {};
  std::vector<Address> parts;
  for (std::uint32_t size = 0; parts.size() < count;) {
    if (!take(address, size) || size > address.size()) return {};
    parts.emplace_back(address.begin(), address.begin() + size);
    address = address.subspan(size);
  }
  if (!address.empty()) return {};
  return parts;
}

}  // namespace capstan
