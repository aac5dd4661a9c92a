#include "core/world/world.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>
#include <numeric>

#include "capstan/error.hpp"
#include "core/bootstrap/join.hpp"
#include "core/engine/progress.hpp"
#include "core/memory/huge_pages.hpp"
#include "core/net/host_identity.hpp"
#include "core/world/make_transport.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

/// The processors that a rank may use.
using Processors = std::bitset<CPU_SETSIZE>;

Processors own_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  Processors processors;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return processors.set();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) processors[cpu] = CPU_ISSET(cpu, &allowed) != 0;
  return processors;
}

/// Whether some ranks have to take turns: fewer processors than ranks, or two bound to the same
/// single one.
bool oversubscribed(const std::vector<Processors>& ranks) {
  Processors all, taken;
  bool shared = false;
  for (const Processors& own : ranks) {
    all |= own;
    if (own.count() != 1) continue;
    shared = shared || (taken & own).any();
    taken |= own;
  }
  return shared || all.count() < ranks.size();
}

std::vector<CpuSet> cpu_sets(const std::vector<Processors>& ranks) {
  std::vector<CpuSet> sets;
  for (const Processors& own : ranks) {
    std::vector<unsigned> cpus;
    for (unsigned cpu = 0; cpu < own.size(); ++cpu)
      if (own[cpu]) cpus.push_back(cpu);
    sets.emplace_back(std::move(cpus));
  }
  return sets;
}

std::string key(const char* what, int rank) {
  return fmt::format("{}/{}", what, rank);
}

std::span<const std::byte> bytes_of_object(const Processors& processors) {
  return std::as_bytes(std::span{&processors, 1});
}

/// What all ranks have put under `what`, in the order of ranks.
std::vector<std::vector<std::byte>> exchange(Store& store, const char* what, int rank, int size,
                                             std::span<const std::byte> own, Deadline deadline) {
  store.put(key(what, rank), own);
  std::vector<std::vector<std::byte>> all;
  for (int peer = 0; peer < size; ++peer) all.push_back(store.get(key(what, peer), deadline));
  return all;
}

std::vector<std::string> exchange_text(Store& store, const char* what, int rank, int size,
                                       const std::string& own, Deadline deadline) {
  std::vector<std::string> all;
  for (const auto& bytes :
       exchange(store, what, rank, size, std::as_bytes(std::span{own}), deadline))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

/// Of several things, those that hold on all ranks.
template <std::size_t Count>
std::array<bool, Count> common(Store& store, const char* what, int rank, int size,
                               std::array<bool, Count> own, Deadline deadline) {
  for (const auto& answers :
       exchange(store, what, rank, size, std::as_bytes(std::span{own}), deadline))
    for (std::size_t i = 0; i < Count; ++i)
      own[i] = own[i] && i < answers.size() && answers[i] == std::byte{1};
  return own;
}

Network agree_on_network(Store& store, int rank, const Hosts& hosts, const Settings& settings,
                         Deadline deadline) {
  if (!network_depends_on_rdma(hosts, settings))
    return hosts.single() ? Network::tcp : settings.network;
  const std::array own{has_rdma(settings)};
  const auto [rdma] = common(store, "rdma", rank, hosts.ranks(), own, deadline);
  return rdma ? Network::verbs : Network::tcp;
}

/// What is to stay in caches. One rank decides, so that all lay out their segments alike and cut
/// calls into the same blocks: ranks that are bound differently do not see the same caches.
struct Caches {
  Bytes chunk, buffers;
};

Caches agree_on_caches(Store& store, int rank, const Machine& machine, int sharing,
                       Deadline deadline) {
  Caches caches{};
  if (rank == 0) {
    caches = {chunk_bytes_for(machine, sharing), cached_buffers(machine, sharing)};
    store.put("caches", std::as_bytes(std::span{&caches, 1}));
    return caches;
  }
  const auto decided = store.get("caches", deadline);
  if (decided.size() != sizeof caches)
    throw BootstrapError("ranks run different versions of Capstan: use one for all");
  std::memcpy(&caches, decided.data(), sizeof caches);
  return caches;
}

Placement agree_on_placement(Store& store, int rank, int size, const Settings& settings,
                             Deadline deadline) {
  const std::string own_host = host_identity();
  const auto identities = exchange_text(store, "host", rank, size, own_host, deadline);
  const Hosts hosts = hosts_of(identities, settings);

  const Processors own = own_processors();
  const auto all = exchange(store, "processors", rank, size, bytes_of_object(own), deadline);
  std::vector<Processors> neighbours;  // of the ranks on this host
  int position = 0;
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (all[peer].size() != sizeof(Processors))
      throw BootstrapError("ranks run different versions of Capstan: use one for all");
    if (identities[peer] != own_host) continue;
    if (static_cast<int>(peer) == rank) position = static_cast<int>(neighbours.size());
    std::memcpy(&neighbours.emplace_back(), all[peer].data(), sizeof(Processors));
  }
  const Machine machine = Machine::discover();
  const Caches caches =
      agree_on_caches(store, rank, machine, static_cast<int>(neighbours.size()), deadline);
  const Settings own_settings = settings_at(position, settings);
  return {.hosts = hosts,
          .network = agree_on_network(store, rank, hosts, own_settings, deadline),
          .chunk = caches.chunk,
          .cached_buffers = caches.buffers,
          .oversubscribed = oversubscribed(neighbours),
          .spare_processors = spare_core(machine, cpu_sets(neighbours), position),
          .position = position};
}

/// Everything in a segment must agree between ranks, above all its layout.
void agree_on_layout(Store& store, int rank, int size, const SegmentLayout& layout, int rails,
                     Deadline deadline) {
  const std::string own = fmt::format("{} bytes for {} rails", layout.total().value(), rails);
  const auto all = exchange_text(store, "layout", rank, size, own, deadline);
  for (int peer = 0; peer < size; ++peer) {
    const std::string& theirs = all[static_cast<std::size_t>(peer)];
    if (theirs != own)
      throw Mismatch(
          fmt::format("rank {} and rank {} need different segments ({}, and {}): give all ranks "
                      "the same CAPSTAN_CHUNK and CAPSTAN_RAILS",
                      rank, peer, own, theirs));
  }
}

/// Whether this rank can read the memory of all others, and write to it. All try at once.
bool reaches_peers(Store& store, Transport& transport, int rank, int size, Deadline deadline) {
  static constexpr std::uint64_t pattern = 0x6361'7073'7461'6e21;
  static std::uint64_t probe[] = {pattern,
                                  0};  // for others, who may come late; they write the last
  const auto own = reinterpret_cast<std::uint64_t>(probe);
  const auto reach = [&](Rank peer, std::uint64_t address) {
    std::uint64_t found = 0;
    return transport.read_remote(peer, address, &found, Bytes{sizeof found}) && found == pattern &&
           transport.write_remote(peer, address + sizeof pattern, &pattern, Bytes{sizeof pattern});
  };
  const auto all =
      exchange(store, "probe", rank, size, std::as_bytes(std::span{&own, 1}), deadline);
  bool readable = true;
  for (int peer = 0; peer < size; ++peer) {
    std::uint64_t theirs = 0;
    const auto& bytes = all[static_cast<std::size_t>(peer)];
    std::memcpy(&theirs, bytes.data(), std::min(bytes.size(), sizeof theirs));
    readable = readable && (peer == rank || reach(Rank{peer}, theirs));
  }
  return readable;
}

bool may_use_huge_pages(const Settings& settings) {
  return settings.huge_pages && can_collapse_pages();
}

/// Where rules say how calls run, nothing is tried.
bool wants_autotuning(const Settings& settings) {
  return settings.autotune && settings.algorithm.empty();
}

/// What a rank may do only if all can and want it.
void agree_on_abilities(Placement& placement, Store& store, Transport& transport, int rank,
                        int size, const Settings& settings, Deadline deadline) {
  const std::array own{reaches_peers(store, transport, rank, size, deadline),
                       may_use_huge_pages(settings), wants_autotuning(settings),
                       !placement.oversubscribed};
  const auto all = common(store, "abilities", rank, size, own, deadline);
  placement.reads_peers = all[0];
  placement.huge_pages = all[0] && all[1];  // it is for who reads them
  placement.autotunes = all[2];
  placement.shares_cores = !all[3];
}

/// A rank of a world, which sleeps on its own transport.
Member make_member(std::unique_ptr<Transport> transport, int rank, int size,
                   const SegmentLayout& layout, const Placement& placement,
                   const Settings& settings) {
  std::vector<int> world_ranks(static_cast<std::size_t>(size));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  const std::shared_ptr<Transport> shared = std::move(transport);
  Engine::Shared own{
      std::make_shared<Progress>(
          shared, Progress::Options{placement.oversubscribed, placement.spare_processors}),
      std::make_shared<shared::SharedMemory>(settings.buffer_limit)};
  return {std::make_unique<Engine>(std::move(own), shared, std::move(world_ranks), Rank{rank},
                                   layout, placement, settings)};
}

Member build(Store& store, int rank, int size, const Settings& common, Deadline deadline) {
  barrier(store, "joined", rank, size, deadline);
  Placement placement = agree_on_placement(store, rank, size, common, deadline);
  const Settings settings = settings_at(placement.position, common);
  const SegmentLayout layout = segment_layout(size, placement, settings);
  agree_on_layout(store, rank, size, layout, settings.rails, deadline);

  auto transport =
      make_transport(Rank{rank}, placement.hosts, placement.network, layout.total(), settings);
  const auto addresses = exchange(store, "address", rank, size, transport->address(), deadline);
  transport->connect(addresses, deadline);
  agree_on_abilities(placement, store, *transport, rank, size, settings, deadline);
  barrier(store, "connected", rank, size, deadline);
  return make_member(std::move(transport), rank, size, layout, placement, settings);
}

/// A world of one needs nobody.
Member build_alone(const Settings& settings) {
  return std::move(make_thread_world(1, settings).front());
}

/// Names this rank in what went wrong during start-up.
template <class Join>
Member naming(int rank, int size, Join join) {
  const auto text = [&](const Error& error) {
    return fmt::format("rank {} of {} could not join the world: {}", rank, size, error.what());
  };
  try {
    return join();
  } catch (const TimedOut& error) {
    throw BootstrapError(text(error));
  } catch (const BootstrapError& error) {
    throw BootstrapError(text(error));
  } catch (const SystemError& error) {
    throw SystemError(text(error));
  }
}

}  // namespace

Member join_launched_world(const Launch& launch, const Settings& settings) {
  if (launch.size == 1) return build_alone(settings);
  const Deadline deadline = Deadline::in(settings.join_timeout);
  return naming(launch.rank, launch.size, [&] {
    const auto store = join(launch, deadline, settings);
    return build(*store, launch.rank, launch.size, settings, deadline);
  });
}

Member join_world(const UniqueId& id, int rank, int size, const Settings& settings) {
  if (size < 1 || rank < 0 || rank >= size)
    throw InvalidArgument(
        fmt::format("cannot join as rank {} of {}: ranks are 0 to size-1", rank, size));
  const Deadline deadline = Deadline::in(settings.join_timeout);
  return naming(rank, size, [&] {
    const auto store = join(id, rank, size, deadline);
    return size == 1 ? build_alone(settings) : build(*store, rank, size, settings, deadline);
  });
}

std::vector<Member> make_thread_world(int ranks, const Settings& settings) {
  if (ranks < 1)
    throw InvalidArgument(fmt::format("a local world of {} ranks: it needs at least one", ranks));
  const Machine machine = Machine::discover();
  const bool oversubscribed = own_processors().count() < static_cast<std::size_t>(ranks);
  const Placement placement{.threads = true,
                            .hosts = virtual_hosts(ranks, settings),
                            .shares_cores = oversubscribed,
                            .chunk = ranks > 1 ? chunk_bytes_for(machine, ranks) : Bytes{0},
                            .reads_peers = true,
                            .huge_pages = ranks > 1 && may_use_huge_pages(settings),
                            .autotunes = wants_autotuning(settings),
                            .cached_buffers = cached_buffers(machine, ranks),
                            .oversubscribed = oversubscribed};
  const SegmentLayout layout = segment_layout(ranks, placement, settings);
  std::vector<Member> members;
  for (auto& transport : make_transports_of_threads(placement.hosts, layout.total(), settings))
    members.push_back(make_member(std::move(transport), static_cast<int>(members.size()), ranks,
                                  layout, placement, settings));
  return members;
}

}  // namespace capstan
