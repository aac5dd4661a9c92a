// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/device_agreement.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <map>

#include "capstan/error.hpp"
#include "core/platform/device/lane_reservation.hpp"
#include "core/platform/net/host_identity.hpp"
#include "core/platform/net/secret.hpp"
#include "kernels/device/program.hpp"

namespace capstan {
namespace {

/// A device, and the ranks that have it.
struct SharedDevice {
  int ranks = 0, multiprocessors = 0;
  std::map<std::uint64_t, int> reserved{};  ///< by process

  int free() const {
    int left = multiprocessors;
    for (const auto& [process, lanes] : reserved) left -= lanes;
    return std::max(left, 0);
  }
  int lanes() const {
    const int wanted = std::clamp(multiprocessors / 2 / ranks, 1, most_lanes);
    return std::min(wanted, free() / ranks);
  }
};

std::map<std::string, SharedDevice> devices_of(std::span<const DeviceFacts> ranks) {
  std::map<std::string, SharedDevice> devices;
  for (const DeviceFacts& rank : ranks) {
    SharedDevice& device = devices[std::string{rank.address.view()}];
    ++device.ranks;
    device.multiprocessors = rank.multiprocessors;
    int& reserved = device.reserved[rank.process];
    reserved = std::max(reserved, rank.reserved);
  }
  return devices;
}

/// Kernels of two contexts of one process never run side by side.
bool has_two_contexts(const DeviceFacts& a, const DeviceFacts& b) {
  return a.process == b.process && a.device == b.device && a.context != b.context;
}

bool share_device(const DeviceFacts& a, const DeviceFacts& b) {
  return a.address.view() == b.address.view();
}

/// Processes that take turns on a device: each wait of a kernel would last as long as a turn.
/// Staging is faster there, at all sizes.
std::string taking_turns(std::span<const DeviceFacts> ranks) {
  for (std::size_t a = 0; a < ranks.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (share_device(ranks[a], ranks[b]) && ranks[a].process != ranks[b].process &&
          (ranks[a].processes_overlap == 0 || ranks[b].processes_overlap == 0))
        return fmt::format(
            "ranks {} and {} are processes that share device {}, where their kernels take turns: "
            "start the vendor's service that joins them (nvidia-cuda-mps-control -d), or give each "
            "rank a device",
            b, a, ranks[a].address.view());
  return "";
}

/// Ranks of a process that share a device: each needs a queue for its stream, and another one for
/// what it does beside. In one queue a kernel that waits holds up the one that it waits for.
std::string lack_of_queues(std::span<const DeviceFacts> ranks) {
  constexpr int of_rank = 2;
  for (const DeviceFacts& rank : ranks) {
    const auto beside = std::ranges::count_if(ranks, [&](const DeviceFacts& other) {
      return rank.process == other.process && share_device(rank, other);
    });
    if (beside > 1 && beside * of_rank > rank.queues)
      return fmt::format(
          "{} ranks of one process share device {} and {} hardware queues, and a kernel that waits "
          "could hold up another rank's in its queue: {}",
          beside, rank.address.view(), rank.queues, rank.more_queues.view());
  }
  return "";
}

std::string lack_of_lanes(std::span<const DeviceFacts> ranks) {
  for (const auto& [address, device] : devices_of(ranks))
    if (device.lanes() == 0)
      return fmt::format(
          "device {} has {} multiprocessors, of which {} are free: too few for the kernels of {} "
          "ranks, which have to run side by side",
          address, device.multiprocessors, device.free(), device.ranks);
  return "";
}

}  // namespace

std::uint64_t own_process() {
  return fingerprint_number(
      fmt::format("{} {} {}", boot_id(), namespace_id("pid"), static_cast<int>(::getpid())));
}

bool have_processes_of_their_own(Communicator& ranks) {
  std::vector<std::uint64_t> processes = exchange(ranks, own_process());
  std::ranges::sort(processes);
  return std::ranges::adjacent_find(processes) == processes.end();
}

DeviceFacts facts_of(const DeviceBlocks* blocks, std::string_view obstacle) {
  DeviceFacts facts{.obstacle = ShortText<200>{obstacle}};
  if (!blocks) return facts;
  const DeviceBuffer& where = blocks->where();
  try {
    std::string address;
    int multiprocessors = 0;
    if (where.driver->pci_address(where.place.device, address) != 0 ||
        where.driver->multiprocessors(where.place.device, multiprocessors) != 0)
      throw SystemError(
          fmt::format("{} does not describe device {}", where.driver->name(), where.place.device));
    facts.host = fingerprint_number(host_identity());
    facts.process = own_process();
    facts.context = reinterpret_cast<std::uintptr_t>(where.place.context);
    facts.device = where.place.device;
    facts.multiprocessors = multiprocessors;
    facts.reserved = LaneReservation::reserved(where);
    bool overlap = false;
    facts.processes_overlap =
        where.driver->processes_overlap(where.place.device, overlap) == 0 && overlap ? 1 : 0;
    const HardwareQueues queues = where.driver->hardware_queues();
    facts.queues = queues.number;
    facts.more_queues =
        ShortText<160>{fmt::format("set {}={} before the program starts, which serves {} ranks",
                                   queues.variable, queues.most, queues.most / 2)};
    facts.vendor = ShortText<8>{where.driver->name()};
    facts.address = ShortText<32>{address};
  } catch (const std::exception& error) {
    facts.obstacle = ShortText<200>{error.what()};
  }
  return facts;
}

std::string obstacle_among(std::span<const DeviceFacts> ranks) {
  if (auto obstacle = first_obstacle(ranks); !obstacle.empty()) return obstacle;
  constexpr auto most_ranks = kernels::device::LaneState::most_ranks;
  if (ranks.size() > most_ranks)
    return fmt::format("there are {} ranks, and at most {} meet on devices", ranks.size(),
                       most_ranks);
  for (const DeviceFacts& rank : ranks) {
    const DeviceFacts& first = ranks.front();
    if (rank.host != first.host) return "ranks are on several hosts";
    if (rank.vendor.view() != first.vendor.view())
      return fmt::format("some ranks use {}, others {}", first.vendor.view(), rank.vendor.view());
    for (const DeviceFacts& other : ranks)
      if (has_two_contexts(rank, other))
        return fmt::format("ranks use two contexts of device {}, whose kernels take turns",
                           rank.address.view());
  }
  if (auto turns = taking_turns(ranks); !turns.empty()) return turns;
  if (auto lack = lack_of_queues(ranks); !lack.empty()) return lack;
  return lack_of_lanes(ranks);
}

int lanes_for(std::span<const DeviceFacts> ranks) {
  int lanes = most_lanes;
  for (const auto& [address, device] : devices_of(ranks)) lanes = std::min(lanes, device.lanes());
  return lanes;
}

}  // namespace capstan
