// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/make_transport.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "capstan/error.hpp"
#include "core/engine/run/machine_view.hpp"
#include "topology/machine.hpp"
#include "transports/compose/faulty/faulty_transport.hpp"
#include "transports/compose/hierarchical/hierarchical_transport.hpp"
#include "transports/compose/multirail/multirail_transport.hpp"
#include "transports/loopback/loopback_transport.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/shm/thread_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan {
namespace {

/// The parts of a list like "mlx5_0,mlx5_1:2".
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream{list};
  for (std::string part; std::getline(stream, part, ',');)
    if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

/// `count` parts of a list from the `first` on, cyclically.
std::string take_in_turn(const std::string& list, int first, int count) {
  const auto parts = parts_of(list);
  if (parts.empty()) return list;
  std::vector<std::string> taken;
  for (int i = first; i < first + count; ++i)
    taken.push_back(parts[static_cast<std::size_t>(i) % parts.size()]);
  return fmt::format("{}", fmt::join(taken, ","));
}

/// Cards and providers of libfabric move data by themselves, past what could seal them.
void require_wire(Network network, Wire wire) {
  if (wire == Wire::plain || network == Network::tcp) return;
  throw InvalidArgument(fmt::format(
      "data between hosts can be {} over tcp only, not over {}: set CAPSTAN_NETWORK=tcp, or "
      "CAPSTAN_WIRE=plain on a network that is trusted",
      name_of(wire), word_for(network)));
}

std::optional<RecordSeal::Mode> seal_of(Wire wire) {
  if (wire == Wire::plain) return std::nullopt;
  return wire == Wire::encrypted ? RecordSeal::Mode::encrypted : RecordSeal::Mode::authenticated;
}

/// A transport to ranks on other hosts, with one connection to each.
std::unique_ptr<Transport> make_rail(const NetworkChoice& network, Rank self, int ranks,
                                     Bytes segment, const Settings& settings,
                                     const Borrowed& memory) {
  require_wire(network.kind, settings.wire);
  if (network.kind == Network::verbs) {
    const VerbsOptions options{.key = network.key,
                               .devices = parts_of(settings.rdma_devices),
                               .gpu_direct = settings.gpu_direct};
    return make_verbs_transport(self, ranks, segment, options, memory);
  }
  if (network.kind == Network::ofi) {
    const OfiOptions options{.key = network.key,
                             .provider = settings.provider,
                             .domain = settings.rdma_devices,
                             .interface = settings.interface,
                             .gpu_direct = settings.gpu_direct};
    return make_ofi_transport(self, ranks, segment, options, memory);
  }
  const TcpOptions options{.key = network.key,
                           .seal = seal_of(settings.wire),
                           .interface = settings.interface,
                           .congestion_control = settings.tcp_congestion};
  return make_tcp_transport(self, ranks, segment, options, memory);
}

/// A transport to ranks on other hosts, over all rails. `shared` has network_segment() bytes.
std::unique_ptr<Transport> make_network_transport(const NetworkChoice& network, Rank self,
                                                  int ranks, Bytes segment,
                                                  const Settings& settings,
                                                  std::byte* shared = nullptr) {
  if (settings.rails == 1) return make_rail(network, self, ranks, segment, settings, shared);
  const auto make = [&](int rail, Bytes whole, const Borrowed& memory) {
    return make_rail(network, self, ranks, whole, settings_of_rail(rail, settings), memory);
  };
  return make_multirail_transport(self, ranks, segment, settings.rails, make, shared);
}

Bytes network_segment(Bytes segment, const Settings& settings) {
  return settings.rails == 1 ? segment : rails_segment(segment);
}

/// Injects faults into the transport that `make` makes for an inner segment of the given size.
template <class Make>
std::unique_ptr<Transport> with_faults(Rank self, int ranks, Bytes segment,
                                       const Settings& settings, Make make) {
  return std::make_unique<FaultyTransport>(make(FaultyTransport::inner_segment(segment, ranks)),
                                           self, ranks, segment, FaultPlan::parse(settings.faults));
}

}  // namespace

Hosts virtual_hosts(int ranks, const Settings& settings) {
  if (settings.virtual_hosts <= 1 && settings.faults.empty()) return ranks;
  const int count = settings.faults.empty() ? std::min(settings.virtual_hosts, ranks) : ranks;
  std::vector<int> host_of;
  for (int rank = 0; rank < ranks; ++rank)
    host_of.push_back(static_cast<int>(std::int64_t{rank} * count / ranks));
  return Hosts{std::move(host_of)};
}

Hosts hosts_of(const std::vector<std::string>& identities, const Settings& settings) {
  const int ranks = static_cast<int>(identities.size());
  if (settings.virtual_hosts > 1 || !settings.faults.empty()) return virtual_hosts(ranks, settings);
  std::map<std::string, int> numbers;
  std::vector<int> host_of;
  for (const std::string& identity : identities)
    host_of.push_back(
        numbers.try_emplace(identity, static_cast<int>(numbers.size())).first->second);
  return Hosts{std::move(host_of)};
}

bool network_depends_on_rdma(const Hosts& hosts, const Settings& settings) {
  return settings.network == Network::automatic && settings.wire == Wire::plain && !hosts.single();
}

bool has_rdma(const Settings& settings) {
  return verbs_obstacle({.devices = parts_of(settings.rdma_devices)}).empty();
}

Settings settings_of_rail(int rail, Settings settings) {
  settings.interface = take_in_turn(settings.interface, rail, 1);
  settings.rdma_devices = take_in_turn(settings.rdma_devices, rail, 1);
  return settings;
}

void load_network(const Settings& settings) {
  if (settings.network == Network::ofi) static_cast<void>(ofi_report({}));
}

Settings settings_at(int position, Settings settings) {
  settings.rdma_devices =
      take_in_turn(settings.rdma_devices, position * settings.rails, settings.rails);
  return settings;
}

std::unique_ptr<Transport> make_transport(Rank self, const Hosts& hosts,
                                          const NetworkChoice& network, Bytes segment,
                                          const Settings& settings) {
  if (!settings.faults.empty())
    return with_faults(self, hosts.ranks(), segment, settings, [&](Bytes inner) {
      return make_network_transport(network, self, hosts.ranks(), inner, settings);
    });
  const std::vector<Rank> neighbours = hosts.on(hosts.host_of(self));
  const auto position = static_cast<int>(std::ranges::find(neighbours, self) - neighbours.begin());
  if (hosts.single()) return make_shm_transport(self, hosts.ranks(), segment);
  // All ranks decide alike, even one that is alone on its host: the kinds of addresses must match.
  if (hosts.count() == hosts.ranks())
    return make_network_transport(network, self, hosts.ranks(), segment, settings);
  auto near = make_shm_transport(Rank{position}, static_cast<int>(neighbours.size()),
                                 network_segment(segment, settings), {.bell = true});
  auto far = make_network_transport(network, self, hosts.ranks(), segment, settings,
                                    near->segment().data());
  return make_hierarchical_transport(self, hosts, std::move(near), std::move(far));
}

namespace {

using Transports = std::vector<std::unique_ptr<Transport>>;

Transports make_faulty_threads(int ranks, Bytes segment, const Settings& settings) {
  const Bytes inner = FaultyTransport::inner_segment(segment, ranks);
  Transports all = make_thread_transports(ranks, inner);
  for (int rank = 0; rank < ranks; ++rank) {
    auto& own = all[static_cast<std::size_t>(rank)];
    own = with_faults(Rank{rank}, ranks, segment, settings, [&](Bytes) { return std::move(own); });
  }
  return all;
}

/// Threads of one virtual host share memory; data for other hosts are pushed.
Transports make_hierarchical_threads(const Hosts& hosts, Bytes segment) {
  const int ranks = hosts.ranks();
  Transports near(static_cast<std::size_t>(ranks)), all;
  for (int host = 0; host < hosts.count(); ++host) {
    const std::vector<Rank> members = hosts.on(host);
    auto made = make_thread_transports(static_cast<int>(members.size()), segment, true);
    for (std::size_t i = 0; i < members.size(); ++i)
      near[static_cast<std::size_t>(members[i].value())] = std::move(made[i]);
  }
  std::vector<std::byte*> segments;
  for (const auto& transport : near) segments.push_back(transport->segment().data());
  auto far = make_loopback_transports(ranks, segment, segments);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    all.push_back(
        make_hierarchical_transport(Rank{rank}, hosts, std::move(near[r]), std::move(far[r])));
  }
  return all;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_transports_of_threads(const Hosts& hosts,
                                                                   Bytes segment,
                                                                   const Settings& settings) {
  Transports all = !settings.faults.empty() ? make_faulty_threads(hosts.ranks(), segment, settings)
                   : hosts.single()         ? make_thread_transports(hosts.ranks(), segment)
                                            : make_hierarchical_threads(hosts, segment);
  std::vector<Address> addresses;
  for (const auto& transport : all) addresses.push_back(transport->address());
  for (const auto& transport : all) transport->connect(addresses, Deadline::never());
  return all;
}

}  // namespace capstan
