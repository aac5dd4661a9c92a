#include "transports/shm/shm_address.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/net/system_call.hpp"
#include "transports/common/mapping.hpp"

namespace capstan::shm {
namespace {

constexpr std::uint64_t current_format = 0x3130'6d68'7370'6163;  // "capshm01"

Token random_token() {
  Token token{};
  const auto length = static_cast<ssize_t>(token.size());
  ssize_t got = 0;
  do {
    got = ::getrandom(token.data(), token.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got != length) throw_errno("getrandom");
  return token;
}

template <std::size_t N>
void store_text(std::array<char, N>& field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), field.begin());
}

std::string random_socket_name() {
  std::string name = "capstan-";
  for (const std::byte b : random_token()) name += fmt::format("{:02x}", std::to_integer<int>(b));
  return name;
}

std::string read_boot_id() {
  std::string id;
  std::getline(std::ifstream{"/proc/sys/kernel/random/boot_id"}, id);
  return id;
}

std::uint64_t namespace_id(const char* path) {
  struct stat status{};
  return ::stat(path, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

ShmAddress ShmAddress::of_this_process(Bytes segment) {
  ShmAddress address;
  address.format = current_format;
  address.segment = segment.value();
  address.network_namespace = namespace_id("/proc/self/ns/net");
  address.pid_namespace = namespace_id("/proc/self/ns/pid");
  address.pid = ::getpid();
  address.uid = ::geteuid();
  address.token = random_token();
  store_text(address.socket_name, random_socket_name());
  store_text(address.boot_id, read_boot_id());
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
