#include "transports/ofi/ofi_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

#include "transports/mapping.hpp"
#include "transports/system_call.hpp"

namespace capstan::ofi {
namespace {

constexpr std::uint64_t current_format = 0x3130'6966'6f70'6163;  // "capofi01"

Token random_token() {
  Token token{};
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw_errno("getrandom");
  }
  return token;
}

template <std::size_t N>
void store_text(std::array<char, N>& field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), field.begin());
}

/// FNV-1a of the kernel's boot id and the network namespace.
std::uint64_t host_id() {
  std::string text;
  std::getline(std::ifstream{"/proc/sys/kernel/random/boot_id"}, text);
  struct stat status{};
  if (::stat("/proc/self/ns/net", &status) == 0) text += std::to_string(status.st_ino);
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return hash;
}

IpAddress mapped(const in_addr& v4) {
  IpAddress ip{};
  ip[10] = ip[11] = 0xff;
  std::memcpy(ip.data() + 12, &v4, sizeof(v4));
  return ip;
}

/// Empty for what other hosts cannot reach.
std::optional<IpAddress> usable_ip(const ifaddrs& interface) {
  if (!interface.ifa_addr || (interface.ifa_flags & IFF_UP) == 0) return std::nullopt;
  if ((interface.ifa_flags & IFF_LOOPBACK) != 0) return std::nullopt;
  if (interface.ifa_addr->sa_family == AF_INET) {
    return mapped(reinterpret_cast<const sockaddr_in*>(interface.ifa_addr)->sin_addr);
  }
  if (interface.ifa_addr->sa_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&v6)) return std::nullopt;
  IpAddress ip{};
  std::memcpy(ip.data(), &v6, sizeof(v6));
  return ip;
}

void list_ips(std::array<IpAddress, OfiAddress::most_ips>& ips) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list{first, &::freeifaddrs};
  std::size_t count = 0;
  for (const ifaddrs* entry = first; entry && count < ips.size(); entry = entry->ifa_next) {
    if (const auto ip = usable_ip(*entry)) ips[count++] = *ip;
  }
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
  address.host = host_id();
  address.token = random_token();
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
