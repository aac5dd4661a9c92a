#include "core/runtime/world.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <bitset>
#include <cstring>

#include "core/ir/error.hpp"
#include "core/runtime/bootstrap/rendezvous.hpp"
#include "topology/machine.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/shm/thread_transport.hpp"

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

Placement agree_on_placement(Store& store, int rank, int size, Deadline deadline) {
  const Processors own = own_processors();
  std::vector<Processors> all;
  for (const auto& bytes :
       exchange(store, "processors", rank, size, bytes_of_object(own), deadline)) {
    if (bytes.size() != sizeof(Processors))
      throw BootstrapError("ranks run different versions of Capstan: use one for all");
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(Processors));
  }
  // One rank decides how much is staged at a time, so that all lay out their segments alike.
  if (rank == 0)
    store.put_text("chunk", fmt::format("{}", chunk_bytes_for(Machine::discover(), size).value()));
  return {.oversubscribed = oversubscribed(all),
          .chunk = Bytes{std::stoull(store.get_text("chunk", deadline))}};
}

/// Everything in a segment must agree between ranks, above all its layout.
void agree_on_layout(Store& store, int rank, int size, const SegmentLayout& layout,
                     Deadline deadline) {
  const std::string own = fmt::format("{}", layout.total().value());
  const auto all = exchange(store, "layout", rank, size, std::as_bytes(std::span{own}), deadline);
  for (int peer = 0; peer < size; ++peer) {
    const std::string theirs(
        reinterpret_cast<const char*>(all[static_cast<std::size_t>(peer)].data()),
        all[static_cast<std::size_t>(peer)].size());
    if (theirs != own)
      throw Mismatch(
          fmt::format("rank {} and rank {} need segments of different sizes ({} and {} "
                      "bytes): give all ranks the same CAPSTAN_CHUNK",
                      rank, peer, own, theirs));
  }
}

std::unique_ptr<Engine> build(Store& store, int rank, int size, const Settings& settings,
                              Deadline deadline) {
  barrier(store, "joined", rank, size, deadline);
  const Placement placement = agree_on_placement(store, rank, size, deadline);
  const SegmentLayout layout = segment_layout(size, placement, settings);
  agree_on_layout(store, rank, size, layout, deadline);

  auto transport = make_shm_transport(Rank{rank}, size, layout.total());
  const auto addresses = exchange(store, "address", rank, size, transport->address(), deadline);
  transport->connect(addresses, deadline);
  barrier(store, "connected", rank, size, deadline);
  return std::make_unique<Engine>(std::move(transport), Rank{rank}, size, layout, placement,
                                  settings);
}

/// A world of one needs nobody.
std::unique_ptr<Engine> build_alone(const Settings& settings) {
  return std::move(make_thread_world(1, settings).front());
}

/// Names this rank in what went wrong during start-up.
template <class Join>
std::unique_ptr<Engine> naming(int rank, int size, Join join) {
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

std::unique_ptr<Engine> join_launched_world(const Launch& launch, const Settings& settings) {
  if (launch.size == 1) return build_alone(settings);
  const Deadline deadline = Deadline::in(settings.join_timeout);
  return naming(launch.rank, launch.size, [&] {
    const auto store = join(launch, deadline);
    return build(*store, launch.rank, launch.size, settings, deadline);
  });
}

std::unique_ptr<Engine> join_world(const UniqueId& id, int rank, int size,
                                   const Settings& settings) {
  if (size < 1 || rank < 0 || rank >= size)
    throw InvalidArgument(
        fmt::format("cannot join as rank {} of {}: ranks are 0 to size-1", rank, size));
  const Deadline deadline = Deadline::in(settings.join_timeout);
  return naming(rank, size, [&] {
    const auto store = join(id, rank, size, deadline);
    return size == 1 ? build_alone(settings) : build(*store, rank, size, settings, deadline);
  });
}

std::vector<std::unique_ptr<Engine>> make_thread_world(int ranks, const Settings& settings) {
  if (ranks < 1)
    throw InvalidArgument(fmt::format("a local world of {} ranks: it needs at least one", ranks));
  const Placement placement{
      .oversubscribed = own_processors().count() < static_cast<std::size_t>(ranks),
      .chunk = ranks > 1 ? chunk_bytes_for(Machine::discover(), ranks) : Bytes{0}};
  const SegmentLayout layout = segment_layout(ranks, placement, settings);
  std::vector<std::unique_ptr<Engine>> engines;
  for (auto& transport : make_thread_transports(ranks, layout.total()))
    engines.push_back(std::make_unique<Engine>(std::move(transport),
                                               Rank{static_cast<int>(engines.size())}, ranks,
                                               layout, placement, settings));
  return engines;
}

}  // namespace capstan
