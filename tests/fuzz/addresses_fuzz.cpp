// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary bytes to the decoders of what transports publish about themselves. They must
// refuse them or make an address of them that encodes to the same bytes and can be spoken about.

#include <cstring>

#include "tests/fuzz/fuzz.hpp"
#include "transports/common/joined_address.hpp"
#include "transports/shm/shm_address.hpp"
#include "transports/tcp/tcp_address.hpp"
#ifdef CAPSTAN_WITH_OFI
#include "transports/ofi/ofi_address.hpp"
#endif
#ifdef CAPSTAN_WITH_VERBS
#include "transports/verbs/verbs_address.hpp"
#endif

namespace {

using namespace capstan;
using fuzz::require;

void use(const tcp::TcpAddress& address) {
  const std::vector<HostAddress> local{
      {.interface = "eth0", .ip = IpAddress::parse("192.0.2.7").value(), .prefix = 24}};
  const auto endpoints = address.endpoints();
  require(endpoints.size() <= tcp::TcpAddress::most_endpoints);
  for (const auto& endpoint : endpoints) require(!endpoint.text().empty());
  require(order_to_try(address, local, address).size() <= endpoints.size());
}

void use(const shm::ShmAddress& address) {
  require(address.socket().size() < address.socket_name.size());
  static_cast<void>(address.obstacle_to(shm::ShmAddress{}));
  static_cast<void>(address.recognises(address, {}));
}

#ifdef CAPSTAN_WITH_OFI
void use(const ofi::OfiAddress& address) {
  require(address.endpoint().size() <= ofi::OfiAddress::longest_name);
  require(address.provider_name().size() < 24);
  require(!address.process_seen_from({}).empty());
}
#endif

#ifdef CAPSTAN_WITH_VERBS
void use(const verbs::VerbsAddress& address) {
  require(address.host().size() < 64);
  static_cast<void>(address.obstacle_to(verbs::VerbsAddress{}));
}
#endif

template <class Kind>
void decode(const Address& bytes) {
  const auto address = Kind::decode(bytes);
  if (!address) return;
  require(address->encode() == bytes);
  use(*address);
}

std::string prefixed(char kind, const Address& bytes) {
  return kind + std::string{fuzz::text_of(bytes)};
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  tcp::TcpAddress tcp;
  for (const char* ip : {"192.0.2.1", "2001:db8::1", "127.0.0.1"})
    tcp.add({IpAddress::parse(ip).value(), 4711});
  std::vector<std::string> all{prefixed(0, tcp.encode()),
                               prefixed(1, shm::ShmAddress::of_this_process(Bytes{4096}).encode()),
                               prefixed(4, join_addresses({tcp.encode(), tcp.encode()}))};
#ifdef CAPSTAN_WITH_OFI
  const std::vector<std::byte> name(32, std::byte{7});
  all.push_back(
      prefixed(2, ofi::OfiAddress::of_this_process(Bytes{4096}, "tcp", name, 4711).encode()));
#endif
#ifdef CAPSTAN_WITH_VERBS
  auto verbs = verbs::VerbsAddress::of_this_process(Bytes{4096}, Bytes{4096});
  verbs.mtu = 3;
  all.push_back(prefixed(3, verbs.encode()));
#endif
  return all;
}

/// The first byte says which transport's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  const std::uint8_t kind = source.byte() % 5;
  const auto rest = source.rest();
  const Address bytes{rest.begin(), rest.end()};
  if (kind == 0) decode<tcp::TcpAddress>(bytes);
  if (kind == 1) decode<shm::ShmAddress>(bytes);
#ifdef CAPSTAN_WITH_OFI
  if (kind == 2) decode<ofi::OfiAddress>(bytes);
#endif
#ifdef CAPSTAN_WITH_VERBS
  if (kind == 3) decode<verbs::VerbsAddress>(bytes);
#endif
  if (kind == 4) {
    const auto parts = split_addresses(bytes, 2);
    require(parts.empty() || (parts.size() == 2 && join_addresses(parts) == bytes));
  }
  return 0;
}
