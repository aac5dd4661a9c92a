// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/unique_id.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "capstan/error.hpp"

namespace capstan {
namespace {

static_assert(sizeof(UniqueId) == 128 && std::is_trivially_copyable_v<UniqueId>);

/// The 128 bytes; the checksum covers all that comes before it.
struct Layout {
  std::array<char, 8> magic;
  std::uint8_t version;
  std::uint8_t family;               // 4 or 6
  std::array<std::uint8_t, 2> port;  // high byte first
  std::array<std::byte, 16> address;
  std::array<std::byte, 32> secret;
  std::array<std::byte, 52> reserved;
  std::array<char, 16> checksum;
};
static_assert(sizeof(Layout) == sizeof(UniqueId) && alignof(Layout) == 1);

constexpr std::array<char, 8> magic{'C', 'a', 'p', 's', 't', 'a', 'n', 'U'};
constexpr std::uint8_t version = 1;
constexpr int variant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
constexpr std::size_t text_length = (sizeof(UniqueId) * 8 + 5) / 6;

std::array<char, 16> checksum_of(const Layout& layout) {
  const std::string_view covered{reinterpret_cast<const char*>(&layout),
                                 sizeof layout - sizeof layout.checksum};
  std::array<char, 16> sum;
  std::ranges::copy(fingerprint(covered).substr(0, sum.size()), sum.begin());
  return sum;
}

[[noreturn]] void invalid(const std::string& what) {
  throw InvalidArgument(
      fmt::format("unique id: {}: pass on exactly what create_unique_id() gave", what));
}

}  // namespace

std::string to_string(const UniqueId& id) {
  std::array<char, text_length + 1> text;
  sodium_bin2base64(text.data(), text.size(),
                    reinterpret_cast<const unsigned char*>(id.bytes.data()), id.bytes.size(),
                    variant);
  return text.data();
}

UniqueId unique_id_from_string(std::string_view text) {
  UniqueId id;
  std::size_t length = 0;
  if (text.size() != text_length ||
      sodium_base642bin(reinterpret_cast<unsigned char*>(id.bytes.data()), id.bytes.size(),
                        text.data(), text.size(), nullptr, &length, nullptr, variant) != 0 ||
      length != id.bytes.size() || to_string(id) != text) {  // sodium also takes other bytes
    invalid(fmt::format("a text of {} characters that is not one", text.size()));
  }
  unseal(id);
  return id;
}

UniqueId seal(const UniqueIdContent& content) {
  Layout layout{};
  layout.magic = magic;
  layout.version = version;
  const auto& [host, port] = content.endpoint;
  layout.family = host.find(':') == host.npos ? 4 : 6;
  if (::inet_pton(layout.family == 4 ? AF_INET : AF_INET6, host.c_str(), layout.address.data()) !=
      1) {
    throw InvalidArgument(fmt::format("unique id: \"{}\" is not a numeric address", host));
  }
  layout.port = {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port & 0xff)};
  layout.secret = content.secret.bytes();
  layout.checksum = checksum_of(layout);
  return std::bit_cast<UniqueId>(layout);
}

UniqueIdContent unseal(const UniqueId& id) {
  const auto layout = std::bit_cast<Layout>(id);
  if (layout.magic != magic) invalid("these 128 bytes are something else");
  if (layout.version != version) {
    invalid(
        fmt::format("it is of version {}, this program knows version {}", layout.version, version));
  }
  if (layout.checksum != checksum_of(layout)) invalid("it is damaged");
  char host[INET6_ADDRSTRLEN];
  ::inet_ntop(layout.family == 4 ? AF_INET : AF_INET6, layout.address.data(), host, sizeof host);
  const auto port = static_cast<std::uint16_t>(layout.port[0] << 8 | layout.port[1]);
  return {{host, port}, Secret::from_bytes(layout.secret)};
}

}  // namespace capstan
