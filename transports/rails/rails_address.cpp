#include "transports/rails/rails_address.hpp"

#include <cstdint>
#include <cstring>

namespace capstan::rails {
namespace {

struct AddressHead {
  static constexpr std::uint32_t of_rails = 0x6c69'6172;  // "rail" on this machine
  std::uint32_t kind = of_rails;
  std::uint32_t rails = 0;
};

void append(Address& to, const void* bytes, std::size_t size) {
  if (size == 0) return;
  to.resize(to.size() + size);
  std::memcpy(to.data() + (to.size() - size), bytes, size);
}

/// Takes an object off the front of `bytes`; false if there is none.
template <class T>
bool take(std::span<const std::byte>& bytes, T& object) {
  if (bytes.size() < sizeof object) return false;
  std::memcpy(&object, bytes.data(), sizeof object);
  bytes = bytes.subspan(sizeof object);
  return true;
}

}  // namespace

Address join(const std::vector<Address>& addresses) {
  const AddressHead head{.rails = static_cast<std::uint32_t>(addresses.size())};
  Address joined;
  append(joined, &head, sizeof head);
  for (const Address& address : addresses) {
    const auto size = static_cast<std::uint32_t>(address.size());
    append(joined, &size, sizeof size);
    append(joined, address.data(), address.size());
  }
  return joined;
}

std::vector<Address> split(std::span<const std::byte> address, std::size_t rails) {
  AddressHead head;
  if (!take(address, head) || head.kind != AddressHead::of_rails || head.rails != rails) return {};
  std::vector<Address> parts;
  for (std::uint32_t size = 0; parts.size() < rails;) {
    if (!take(address, size) || size > address.size()) return {};
    parts.emplace_back(address.begin(), address.begin() + size);
    address = address.subspan(size);
  }
  if (!address.empty()) return {};
  return parts;
}

}  // namespace capstan::rails
