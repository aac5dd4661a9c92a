// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/shm_address.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/platform/net/host_identity.hpp"
#include "transports/common/mapping.hpp"

namespace capstan::shm {
namespace {

constexpr std::uint64_t current_format = 0x3130'6d68'7370'6163;  // "capshm01"

template <std::size_t N>
void store_text(std::array<char, N>& field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), field.begin());
}

std::string random_socket_name() {
  return std::string{socket_prefix} + hexadecimal(random_value<Token>());
}

}  // namespace

ShmAddress ShmAddress::of_this_process(Bytes segment) {
  ShmAddress address;
  address.format = current_format;
  address.segment = segment.value();
  address.network_namespace = namespace_id("net");
  address.pid_namespace = namespace_id("pid");
  address.pid = ::getpid();
  address.uid = ::geteuid();
  address.token = random_value<Token>();
  store_text(address.socket_name, random_socket_name());
  store_text(address.boot_id, capstan::boot_id());
  return address;
}

Address ShmAddress::encode() const {
  Address bytes(sizeof(*this));
  std::memcpy(bytes.data(), this, sizeof(*this));
  return bytes;
}

std::optional<ShmAddress> ShmAddress::decode(const Address& address) {
  ShmAddress result;
  if (address.size() != sizeof(result)) return std::nullopt;
  std::memcpy(&result, address.data(), sizeof(result));
  const bool terminated = result.socket_name.back() == 0 && result.boot_id.back() == 0;
  if (result.format != current_format || !terminated) return std::nullopt;
  if (!is_segment_size(Bytes{result.segment})) return std::nullopt;
  return result;
}

std::optional<std::string> ShmAddress::obstacle_to(const ShmAddress& peer) const {
  if (peer.boot_id != boot_id) {
    return fmt::format(
        "it is on another host (boot id {}, here {}); shared memory reaches only "
        "ranks of one host",
        peer.boot_id.data(), boot_id.data());
  }
  if (peer.network_namespace != network_namespace) {
    return "it is in another network namespace, for example another container; let the ranks of "
           "one host share one";
  }
  return std::nullopt;
}

bool ShmAddress::shares_pids_with(const ShmAddress& peer) const {
  return peer.pid_namespace == pid_namespace;
}

bool ShmAddress::recognises(const ShmAddress& peer, Credentials found) const {
  return found.uid == peer.uid && (!shares_pids_with(peer) || found.pid == peer.pid);
}

}  // namespace capstan::shm
