// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "capstan/quantity.hpp"
#include "core/platform/net/job_key.hpp"
#include "transports/transport.hpp"

namespace capstan::ofi {

/// An IPv6 address, or an IPv4 address mapped into one. All zeros: none.
using MappedIp = std::array<std::uint8_t, 16>;

/// The contents of Address: where one rank can be reached. 384 bytes.
struct OfiAddress {
  static constexpr std::size_t longest_name = 192;
  static constexpr std::size_t most_ips = 4;

  /// `endpoint` is what fi_getname(3) returns. Throws SystemError when it is too long, or when
  /// there is no source of randomness.
  static OfiAddress of_this_process(Bytes segment, std::string_view provider,
                                    std::span<const std::byte> endpoint, std::uint16_t watch_port);

  Address encode() const;
  /// Nothing unless `address` was made by encode() of this version.
  static std::optional<OfiAddress> decode(const Address& address);

  std::span<const std::byte> endpoint() const { return std::span{name}.first(name_length); }
  std::string_view provider_name() const { return provider.data(); }
  bool on_same_host(const OfiAddress& other) const { return host == other.host; }
  /// "process 4711", or "process 4711 on HOST" if that is not the host of `here`.
  std::string process_seen_from(const OfiAddress& here) const;

  std::uint64_t format = 0;
  std::uint64_t segment = 0;  // bytes
  std::uint64_t host = 0;     // the same for ranks of one host and network namespace
  JobKey::TransportId id{};
  std::int32_t pid = 0;
  std::uint16_t watch_port = 0;  // of its LivenessListener
  std::uint16_t name_length = 0;
  std::array<MappedIp, most_ips> ips{};
  std::array<char, 24> provider{};   // ends with a zero
  std::array<char, 48> host_name{};  // ends with a zero
  std::array<std::byte, longest_name> name{};
};
static_assert(sizeof(OfiAddress) <= 400);
static_assert(std::has_unique_object_representations_v<OfiAddress>, "encoded as its bytes");

}  // namespace capstan::ofi
