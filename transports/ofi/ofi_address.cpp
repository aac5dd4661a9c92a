// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/ofi_address.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "capstan/error.hpp"
#include "core/platform/net/host_identity.hpp"
#include "core/platform/net/network.hpp"
#include "transports/common/mapping.hpp"

namespace capstan::ofi {
namespace {

constexpr std::uint64_t current_format = 0x3230'6966'6f70'6163;  // "capofi02"

template <std::size_t N>
void store_text(std::array<char, N>& field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), field.begin());
}

MappedIp mapped(const IpAddress& ip) {
  MappedIp result{};
  if (ip.v6) {
    std::memcpy(result.data(), ip.bytes.data(), 16);
  } else {
    result[10] = result[11] = 0xff;
    std::memcpy(result.data() + 12, ip.bytes.data(), 4);
  }
  return result;
}

/// Lists the addresses at which other hosts may watch this one. Without any, only the provider
/// reports deaths.
void list_ips(std::array<MappedIp, OfiAddress::most_ips>& ips) {
  const std::vector<HostAddress> all = host_addresses();
  if (std::ranges::none_of(all, &HostAddress::up)) return;
  std::size_t count = 0;
  for (const HostAddress& address : choose_addresses("", all))
    if (!address.loopback && count < ips.size()) ips[count++] = mapped(address.ip);
}

}  // namespace

OfiAddress OfiAddress::of_this_process(Bytes segment, std::string_view provider,
                                       std::span<const std::byte> endpoint,
                                       std::uint16_t watch_port) {
  if (endpoint.size() > longest_name) {
    throw SystemError(
        fmt::format("the endpoint's name has {} bytes, and {} at most fit; choose "
                    "another provider than {}",
                    endpoint.size(), longest_name, provider));
  }
  OfiAddress address;
  address.format = current_format;
  address.segment = segment.value();
  address.host = network_identity();
  address.id = random_value<JobKey::TransportId>();
  address.pid = ::getpid();
  address.watch_port = watch_port;
  address.name_length = static_cast<std::uint16_t>(endpoint.size());
  list_ips(address.ips);
  store_text(address.provider, provider);
  ::gethostname(address.host_name.data(), address.host_name.size() - 1);
  std::ranges::copy(endpoint, address.name.begin());
  return address;
}

Address OfiAddress::encode() const {
  Address bytes(sizeof(*this));
  std::memcpy(bytes.data(), this, sizeof(*this));
  return bytes;
}

std::optional<OfiAddress> OfiAddress::decode(const Address& address) {
  OfiAddress result;
  if (address.size() != sizeof(result)) return std::nullopt;
  std::memcpy(&result, address.data(), sizeof(result));
  const bool terminated = result.provider.back() == 0 && result.host_name.back() == 0;
  if (result.format != current_format || !terminated) return std::nullopt;
  if (result.name_length > longest_name) return std::nullopt;
  if (!is_segment_size(Bytes{result.segment})) return std::nullopt;
  return result;
}

std::string OfiAddress::process_seen_from(const OfiAddress& here) const {
  if (on_same_host(here)) return fmt::format("process {}", pid);
  return fmt::format("process {} on {}", pid, host_name.data());
}

}  // namespace capstan::ofi
