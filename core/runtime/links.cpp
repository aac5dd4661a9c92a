#include "core/runtime/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/ir/error.hpp"
#include "topology/machine.hpp"
#include "transports/mixed/mixed_transport.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/posted/posted_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/shm/thread_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan {
namespace {

/// What reaches ranks on other hosts.
std::unique_ptr<Transport> make_network_transport(Network network, Rank self, int ranks,
                                                  Bytes segment, const Settings& settings,
                                                  std::byte* shared = nullptr) {
  if (network == Network::verbs) return make_verbs_transport(self, ranks, segment, {}, shared);
  if (network == Network::ofi) {
    OfiOptions options;
    options.provider = settings.provider;
    return make_ofi_transport(self, ranks, segment, options, shared);
  }
  const TcpOptions options{.interface = settings.interface};
  return make_tcp_transport(self, ranks, segment, options, shared);
}

constexpr std::string_view has_rdma = "RDMA ", lacks_rdma = "- ";

}  // namespace

Hosts virtual_hosts(int ranks, const Settings& settings) {
  if (settings.virtual_hosts <= 1) return ranks;
  const int count = std::min(settings.virtual_hosts, ranks);
  std::vector<int> host_of;
  for (int rank = 0; rank < ranks; ++rank)
    host_of.push_back(static_cast<int>(std::int64_t{rank} * count / ranks));
  return Hosts{std::move(host_of)};
}

std::string self_description() {
  return std::string{verbs_devices().empty() ? lacks_rdma : has_rdma} + host_identity();
}

Surroundings agree_on_surroundings(const std::vector<std::string>& descriptions,
                                   const Settings& settings) {
  std::map<std::string, int> numbers;
  std::vector<int> host_of;
  bool rdma = true;
  for (const std::string& description : descriptions) {
    rdma = rdma && description.starts_with(has_rdma);
    const std::string host = description.substr(description.find(' ') + 1);
    host_of.push_back(numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second);
  }
  Network network = settings.network;
  if (network == Network::automatic) network = rdma ? Network::verbs : Network::tcp;
  const int ranks = static_cast<int>(descriptions.size());
  return {settings.virtual_hosts > 1 ? virtual_hosts(ranks, settings) : Hosts{std::move(host_of)},
          network};
}

std::unique_ptr<Transport> make_transport(Rank self, const Hosts& hosts, Network network,
                                          Bytes segment, const Settings& settings) {
  const std::vector<Rank> neighbours = hosts.on(hosts.host_of(self));
  const auto position = static_cast<int>(std::ranges::find(neighbours, self) - neighbours.begin());
  if (hosts.single()) return make_shm_transport(self, hosts.ranks(), segment);
  if (neighbours.size() == 1)
    return make_network_transport(network, self, hosts.ranks(), segment, settings);
  auto near = make_shm_transport(Rank{position}, static_cast<int>(neighbours.size()), segment);
  auto far = make_network_transport(network, self, hosts.ranks(), segment, settings,
                                    near->segment().data());
  return make_mixed_transport(self, hosts, std::move(near), std::move(far));
}

std::vector<std::unique_ptr<Transport>> make_transports_of_threads(const Hosts& hosts,
                                                                   Bytes segment) {
  const int ranks = hosts.ranks();
  if (hosts.single()) return make_thread_transports(ranks, segment);

  std::vector<std::unique_ptr<Transport>> near(static_cast<std::size_t>(ranks)), all;
  for (int host = 0; host < hosts.count(); ++host) {
    const std::vector<Rank> members = hosts.on(host);
    auto made = make_thread_transports(static_cast<int>(members.size()), segment);
    for (std::size_t i = 0; i < members.size(); ++i)
      near[static_cast<std::size_t>(members[i].value())] = std::move(made[i]);
  }
  std::vector<std::byte*> segments;
  for (const auto& transport : near) segments.push_back(transport->segment().data());
  auto far = make_posted_thread_transports(ranks, segment, segments);
  std::vector<Address> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    all.push_back(make_mixed_transport(Rank{rank}, hosts, std::move(near[r]), std::move(far[r])));
    addresses.push_back(all.back()->address());
  }
  for (const auto& transport : all) transport->connect(addresses, Deadline::never());
  return all;
}

}  // namespace capstan
