// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "capstan/quantity.hpp"
#include "core/platform/net/random.hpp"
#include "transports/shm/unix_socket.hpp"
#include "transports/transport.hpp"

namespace capstan::shm {

/// With this the names of all sockets of this transport begin.
inline constexpr std::string_view socket_prefix = "capstan-";

/// The contents of Address: where one rank can be reached, and how to recognise it.
struct ShmAddress {
  /// The address of this process, with a fresh socket name and token. Throws SystemError.
  static ShmAddress of_this_process(Bytes segment);

  Address encode() const;
  /// Nothing unless `address` was made by encode() of this version.
  static std::optional<ShmAddress> decode(const Address& address);

  std::string_view socket() const { return socket_name.data(); }
  /// Why this process cannot reach the one with address `peer`, or nothing.
  std::optional<std::string> obstacle_to(const ShmAddress& peer) const;
  bool shares_pids_with(const ShmAddress& peer) const;
  /// Whether `found` are the credentials of the owner of `peer`, as this process sees them.
  bool recognises(const ShmAddress& peer, Credentials found) const;

  std::uint64_t format = 0;
  std::uint64_t segment = 0;            // bytes
  std::uint64_t network_namespace = 0;  // inode numbers; 0: not known
  std::uint64_t pid_namespace = 0;
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  Token token{};
  std::array<char, 48> socket_name{};  // abstract, ends with a zero
  std::array<char, 40> boot_id{};      // of the kernel: tells hosts apart
};
static_assert(std::has_unique_object_representations_v<ShmAddress>, "encoded as its bytes");

}  // namespace capstan::shm
