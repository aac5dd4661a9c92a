// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/world.hpp"
#include "transports/compose/faulty/faulty_transport.hpp"
#include "transports/compose/hierarchical/hierarchical_transport.hpp"
#include "transports/compose/multirail/multirail_transport.hpp"
#include "transports/loopback/loopback_transport.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/shm/thread_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan::conformance {

using Transports = std::vector<std::unique_ptr<Transport>>;

/// Connects transports of one process to each other.
inline Transports connected(Transports transports) {
  std::vector<Address> addresses;
  for (const auto& transport : transports) addresses.push_back(transport->address());
  for (const auto& transport : transports) transport->connect(addresses, Deadline::in(patience));
  return transports;
}

/// Ranks that are threads: rank 0 makes the transports of all.
inline Member::Maker made_by_one(
    std::function<Transports(int ranks, Bytes segment, std::span<std::byte* const> shared)> make) {
  auto made = std::make_shared<Transports>();
  auto segments = std::make_shared<std::vector<std::byte*>>();
  return [=](const Member& member, Bytes segment, std::byte* shared) {
    if (member.id() == 0) segments->resize(static_cast<std::size_t>(member.ranks()));
    member.meet();
    segments->at(static_cast<std::size_t>(member.id())) = shared;
    member.meet();
    if (member.id() == 0) {
      if (!shared) segments->clear();
      *made = make(member.ranks(), segment, *segments);
    }
    member.meet();
    std::unique_ptr<Transport> own = std::move(made->at(static_cast<std::size_t>(member.id())));
    member.meet();
    return own;
  };
}

inline Member::Maker make_threads(bool bells = false) {
  return made_by_one([bells](int ranks, Bytes segment, std::span<std::byte* const>) {
    return make_thread_transports(ranks, segment, bells);
  });
}

inline Member::Maker make_loopback_threads() {
  return made_by_one(make_loopback_transports);
}

inline Member::Maker make_shm(ShmFacilities facilities) {
  return [facilities](const Member& member, Bytes segment, std::byte*) {
    return make_shm_transport(member.self(), member.ranks(), segment, facilities);
  };
}

/// Options for the loopback interface, whatever else the host has.
inline auto make_tcp(bool lazy, std::optional<RecordSeal::Mode> seal = {}) {
  TcpOptions options;
  options.key = test_key();
  options.interface = "127.0.0.1";
  options.lazy = lazy;
  options.seal = seal;
  return [options](const Member& member, Bytes segment, const Borrowed& memory) {
    return make_tcp_transport(member.self(), member.ranks(), segment, options, memory);
  };
}

/// All faults that the contract allows, at once and often.
inline FaultPlan all_faults(std::uint64_t seed) {
  return {.seed = seed,
          .delay = 0.1,
          .delay_calls = 8,
          .reorder = 0.2,
          .partial = 0.2,
          .drop = 0.02,
          .resend_calls = 20,
          .spurious = 0.1,
          .early = 0.1};
}

inline Member::Maker with_faults(const Member::Maker& make_inner, std::uint64_t seed) {
  return [make_inner, seed](const Member& member, Bytes segment,
                            std::byte*) -> std::unique_ptr<Transport> {
    const Bytes whole = FaultyTransport::inner_segment(segment, member.ranks());
    return std::make_unique<FaultyTransport>(make_inner(member, whole, nullptr), member.self(),
                                             member.ranks(), segment, all_faults(seed));
  };
}

/// The world with faults of this seed.
inline World faulty(const World& world, std::uint64_t seed) {
  return {fmt::format("faulty_{}_seed_{}", world.name, seed), world.processes,
          [world, seed] { return with_faults(world.new_maker(), seed); }};
}

inline bool has_rdma_device() {
  const std::filesystem::path devices{"/sys/class/infiniband"};
  return std::filesystem::exists(devices) && !std::filesystem::is_empty(devices);
}

/// Loads libfabric before ranks fork, as loading takes 0.1 s per rank. Not where it finds devices,
/// which do not survive a fork.
inline void load_libfabric() {
  if (!has_rdma_device()) ofi_report();
}

/// `reads`: exposed memory is read also where software does it.
inline auto make_ofi(std::string provider, OfiPushes pushes, bool reads = false) {
  load_libfabric();
  OfiOptions options;
  options.key = test_key();
  options.provider = std::move(provider);
  options.pushes = pushes;
  options.reads_by_software = reads;
  return [options](const Member& member, Bytes segment, const Borrowed& memory) {
    return make_ofi_transport(member.self(), member.ranks(), segment, options, memory);
  };
}

inline World ofi_world(std::string name, std::string provider, OfiPushes pushes,
                       bool reads = false) {
  return {std::move(name), true, [=] { return make_ofi(provider, pushes, reads); }, true};
}

/// The ranks use all devices in turn, so that data cross the wire. The long timeout is for peers
/// that are slow because they are many or emulated.
inline auto make_verbs(VerbsOptions options) {
  options.key = test_key();
  for (const VerbsDevice& device : verbs_devices()) options.devices.push_back(device.name);
  options.peer_timeout = std::chrono::seconds{4};
  return [options](const Member& member, Bytes segment, const Borrowed& memory) {
    return make_verbs_transport(member.self(), member.ranks(), segment, options, memory);
  };
}

/// Options as for a device with short queues and without inline data.
inline VerbsOptions poor_device() {
  VerbsOptions options;
  options.send_depth = 16;
  options.piece = Bytes{4096};
  options.inline_data = false;
  return options;
}

/// Two rails of `make_rail` as one transport.
inline Member::Maker on_two_rails(
    const std::function<std::unique_ptr<Transport>(const Member&, Bytes, const Borrowed&)>&
        make_rail) {
  return [make_rail](const Member& member, Bytes segment, std::byte* shared) {
    const auto make = [&](int, Bytes whole, const Borrowed& memory) {
      return make_rail(member, whole, memory);
    };
    return make_multirail_transport(member.self(), member.ranks(), segment, 2, make, shared);
  };
}

/// Even ranks share one simulated host, odd ranks another.
inline Member::Maker make_hierarchical() {
  return [](const Member& member, Bytes segment, std::byte*) {
    std::vector<int> host_of;
    for (int rank = 0; rank < member.ranks(); ++rank) host_of.push_back(rank % 2);
    const int position = member.id() / 2, near_ranks = (member.ranks() + 1 - member.id() % 2) / 2;
    auto near = make_shm_transport(Rank{position}, near_ranks, segment, {.bell = true});
    auto far = make_tcp(true)(member, segment, near->segment().data());
    return make_hierarchical_transport(member.self(), Hosts{std::move(host_of)}, std::move(near),
                                       std::move(far));
  };
}

/// Every transport. A new transport joins the suite by a line here.
inline std::vector<World> all_worlds() {
  const World threads{"threads", false, [] { return make_threads(); }};
  const World shm{"shm", true, [] { return make_shm({}); }};
  std::vector<World> worlds{
      threads,
      shm,
      {"threads_with_bells", false, [] { return make_threads(true); }},
      {"shm_with_bells", true, [] { return make_shm({.bell = true}); }},
      {"loopback", false, make_loopback_threads, true},
      {"shm_on_old_kernel", true, [] { return make_shm({.pidfd = false, .membarrier = false}); }},
      {"tcp", true, [] { return make_tcp(true); }, true, true},
      {"tcp_eager", true, [] { return make_tcp(false); }, true, false},
      {"tcp_threads", false, [] { return make_tcp(true); }, true, true},
      {"tcp_encrypted", true, [] { return make_tcp(true, RecordSeal::Mode::encrypted); }, true,
       true},
      {"tcp_authenticated", false, [] { return make_tcp(true, RecordSeal::Mode::authenticated); },
       true, true},
      {"hierarchical", true, make_hierarchical, false, true},
      {"tcp_on_rails", true, [] { return on_two_rails(make_tcp(true)); }, true, true},
      faulty(threads, 1),
      faulty(shm, 3),
  };
  if (ofi_is_built_in()) {
    worlds.push_back(ofi_world("ofi_tcp", "tcp", OfiPushes::write));
    worlds.push_back({"ofi_tcp_on_rails", true,
                      [] { return on_two_rails(make_ofi("tcp", OfiPushes::write)); }, true});
    worlds.push_back(ofi_world("ofi_tcp_messages", "tcp", OfiPushes::messages));
    worlds.push_back(ofi_world("ofi_shm", "shm", OfiPushes::automatic));
  }
  if (verbs_obstacle().empty()) {  // in the guest, see tests/verbs
    worlds.push_back({"verbs", true, [] { return make_verbs({}); }, true});
    worlds.push_back({"verbs_on_rails", true, [] { return on_two_rails(make_verbs({})); }, true});
    worlds.push_back(
        {"verbs_on_a_poor_device", true, [] { return make_verbs(poor_device()); }, true});
  }
  if (ofi_is_built_in() && has_rdma_device()) {
    worlds.push_back(ofi_world("ofi_verbs", "verbs", OfiPushes::write));
    worlds.push_back(ofi_world("ofi_verbs_messages", "verbs", OfiPushes::messages));
  }
  return worlds;
}

/// The worlds whose ranks read what peers expose.
inline std::vector<World> reading_worlds() {
  std::vector<World> worlds;
  if (ofi_is_built_in()) {
    worlds.push_back(ofi_world("ofi_tcp", "tcp", OfiPushes::write, true));
    worlds.push_back(ofi_world("ofi_tcp_messages", "tcp", OfiPushes::messages, true));
  }
  if (verbs_obstacle().empty()) worlds.push_back({"verbs", true, [] { return make_verbs({}); }});
  if (ofi_is_built_in() && has_rdma_device())
    worlds.push_back(ofi_world("ofi_verbs", "verbs", OfiPushes::write));
  return worlds;
}

/// The worlds that tell something. The thread sanitizer sees threads only.
inline std::vector<World> worlds_to_try() {
  std::vector<World> worlds = all_worlds();
#ifdef __SANITIZE_THREAD__
  std::erase_if(worlds, [](const World& world) { return world.processes; });
#endif
  return worlds;
}

/// The worlds whose links are not mapped.
inline std::vector<World> mirrored(std::vector<World> worlds) {
  std::erase_if(worlds, [](const World& world) { return !world.mirrored; });
  return worlds;
}

}  // namespace capstan::conformance
