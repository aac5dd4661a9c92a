// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/platform/net/job_key.hpp"
#include "transports/transport.hpp"

namespace capstan::verbs {

/// The contents of Address: where a rank receives the datagrams by which peers exchange the queue
/// pairs of their connections.
struct VerbsAddress {
  std::uint64_t format = 0;
  std::uint64_t segment = 0;  // bytes
  std::uint64_t piece = 0;    // bytes
  std::array<std::uint8_t, 16> gid{};
  JobKey::TransportId id{};
  std::uint32_t greeter = 0;  // number of the queue pair that takes datagrams
  std::int32_t pid = 0;
  std::uint16_t lid = 0;      // InfiniBand
  std::uint8_t ethernet = 0;  // whether this is RoCE
  std::uint8_t mtu = 0;       // an ibv_mtu
  std::uint32_t unused = 0;
  std::array<char, 64> host_name{};

  /// The fields that do not depend on the device. Throws SystemError when there is no randomness.
  static VerbsAddress of_this_process(Bytes segment, Bytes piece);
  Address encode() const;
  /// Nothing unless the bytes are such an address.
  static std::optional<VerbsAddress> decode(std::span<const std::byte> bytes);

  /// Why this rank cannot connect to `peer`, or nothing.
  std::optional<std::string> obstacle_to(const VerbsAddress& peer) const;
  std::string host() const { return host_name.data(); }
};

}  // namespace capstan::verbs
