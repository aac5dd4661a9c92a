// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/verbs_address.hpp"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstring>

#include "transports/common/mapping.hpp"

namespace capstan::verbs {
namespace {

constexpr std::uint64_t current_format = 0x3230'6276'7370'6163;  // "capsvb02"

}  // namespace

VerbsAddress VerbsAddress::of_this_process(Bytes segment, Bytes piece) {
  VerbsAddress address;
  address.format = current_format;
  address.segment = segment.value();
  address.piece = piece.value();
  address.pid = ::getpid();
  address.id = random_value<JobKey::TransportId>();
  ::gethostname(address.host_name.data(), address.host_name.size() - 1);
  return address;
}

Address VerbsAddress::encode() const {
  static_assert(sizeof(*this) <= 400);
  Address bytes(sizeof(*this));
  std::memcpy(bytes.data(), this, sizeof(*this));
  return bytes;
}

std::optional<VerbsAddress> VerbsAddress::decode(std::span<const std::byte> bytes) {
  VerbsAddress address;
  if (bytes.size() != sizeof(address)) return std::nullopt;
  std::memcpy(&address, bytes.data(), sizeof(address));
  const bool plausible = address.format == current_format &&
                         is_segment_size(Bytes{address.segment}) && address.greeter < 1 << 24 &&
                         address.mtu >= IBV_MTU_256 && address.mtu <= IBV_MTU_4096 &&
                         address.host_name.back() == '\0';
  if (!plausible) return std::nullopt;
  return address;
}

std::optional<std::string> VerbsAddress::obstacle_to(const VerbsAddress& peer) const {
  if (peer.segment != segment) {
    return fmt::format("its segment has {} bytes, that of this rank {}", peer.segment, segment);
  }
  if (peer.piece != piece) {
    return fmt::format("it pins pieces of {} bytes, this rank of {}; set both alike", peer.piece,
                       piece);
  }
  if (peer.ethernet != ethernet) {
    const auto kind = [](bool is_ethernet) { return is_ethernet ? "RoCE" : "InfiniBand"; };
    return fmt::format("it uses {}, this rank {}; choose the devices", kind(peer.ethernet != 0),
                       kind(ethernet != 0));
  }
  return std::nullopt;
}

}  // namespace capstan::verbs
