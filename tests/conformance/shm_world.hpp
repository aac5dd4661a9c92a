// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"
#include "transports/shm/shm_address.hpp"

namespace capstan::conformance {

inline const World& shm_world() {
  static const World world = all_worlds()[1];
  return world;
}

inline shm::ShmAddress decoded(const Address& address) {
  const auto result = shm::ShmAddress::decode(address);
  if (!result) throw std::runtime_error("the transport's own address cannot be decoded");
  return *result;
}

/// Sends a flag in both directions, to show that the connection works.
inline void greet_peer(const Member& member, Transport& transport) {
  Mailbox mailbox{member, transport, Bytes{8}};
  for (const Rank peer : member.peers()) mailbox.raise_flag(peer, 1);
  for (const Rank peer : member.peers()) mailbox.await_asleep(peer, 1);
  member.meet();
}

inline constexpr Bytes small = Bytes{1024};

}  // namespace capstan::conformance
