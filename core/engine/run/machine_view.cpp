// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/machine_view.hpp"

#include <algorithm>
#include <bit>

#include "capstan/deadline.hpp"
#include "core/engine/messages/messages.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/device_links.hpp"

namespace capstan {

/// Among few ranks on a host the rings to all peers together take more than the second cache of a
/// core holds, for the reason that SlotPlaces has.
Bytes message_ring(const Hosts& hosts) {
  constexpr Bytes shortest{64 << 10}, far{1 << 20}, in_all{2 << 20};
  constexpr int few = 8, many = 64;
  if (!hosts.single()) return hosts.ranks() > many ? shortest : far;
  if (hosts.ranks() > few || hosts.ranks() == 1) return shortest;
  return Bytes{std::bit_floor(in_all.value() / static_cast<std::uint64_t>(hosts.ranks() - 1))};
}

MachineView with_chunk_of(const Settings& settings, MachineView machine) {
  if (settings.chunk > Bytes{0}) machine.chunk = settings.chunk;
  return machine;
}

Settings with_countable_times(Settings settings) {
  for (std::chrono::milliseconds* limit : {&settings.timeout, &settings.join_timeout})
    *limit = std::min(*limit, longest_time_limit);
  return settings;
}

std::string_view word_for(Network network) {
  if (network == Network::automatic) network = Network::tcp;
  return network_names.at(static_cast<std::size_t>(network));
}

LinkModel link_model(const MachineView& machine, const Settings& settings,
                     std::optional<DeviceLink> devices) {
  const ModelScale scale = machine.profile.part(devices).scales.at(machine.hosts);
  if (devices) return scale.applied(device_links(*devices, machine.hosts.ranks()));
  return scale.applied({.reads_peers = machine.reads_peers && settings.single_copy,
                        .cores = machine.cores,
                        .shares_cores = machine.shares_cores,
                        .huge_pages = machine.huge_pages,
                        .cache = machine.cached_buffers});
}

Bytes block_bytes(int ranks, Bytes chunk) {
  return std::min(chunk * static_cast<std::uint64_t>(ranks), largest_block);
}

PlanLimits plan_limits(const MachineView& machine) {
  return {.block = block_bytes(machine.hosts.ranks(), machine.chunk),
          .cached_buffers = machine.cached_buffers,
          .long_read = Bytes{Link::long_read}};
}

SegmentLayout segment_layout(const Hosts& hosts, const MachineView& machine,
                             const Settings& settings) {
  const int ranks = hosts.ranks();
  const Bytes messages = Messages::area(ranks, message_ring(hosts));
  // Areas of a staging buffer start on cache lines: a little more than the block itself.
  const Bytes rounding = bytes_of(staging_unit, Bytes{8}) * static_cast<std::uint64_t>(ranks + 1);
  const Bytes staging = block_bytes(ranks, with_chunk_of(settings, machine).chunk) + rounding;
  return {ranks, SlotLayout{ranks, staging}, messages};
}

}  // namespace capstan
