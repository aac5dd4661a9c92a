// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/processes.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace capstan::perf {
namespace {

/// A process as ranks tell each other of it.
struct Sent {
  std::array<char, 256> host{};
  std::int32_t pid = 0, core = -1, device = -1;
};

}  // namespace

std::vector<ProcessOfRank> processes_of(Communicator& world, int device) {
  Sent own{.pid = ::getpid(), .core = ::sched_getcpu(), .device = device};
  ::gethostname(own.host.data(), own.host.size() - 1);
  std::vector<Sent> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::span{reinterpret_cast<const std::uint8_t*>(&own), sizeof own},
                   std::span{reinterpret_cast<std::uint8_t*>(all.data()), all.size() * sizeof own});
  std::vector<ProcessOfRank> processes;
  for (const Sent& each : all)
    processes.push_back({each.host.data(), each.pid, each.core, each.device});
  return processes;
}

std::string to_lines(const std::vector<ProcessOfRank>& processes) {
  std::string lines;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const auto& [host, pid, core, device] = processes[rank];
    lines += fmt::format("# rank {}: {}, pid {}, core {}", rank, host, pid, core);
    if (device >= 0) lines += fmt::format(", device {}", device);
    lines += "\n";
  }
  return lines;
}

nlohmann::json to_json(const std::vector<ProcessOfRank>& processes) {
  auto all = nlohmann::json::array();
  for (const auto& [host, pid, core, device] : processes) {
    all.push_back({{"host", host}, {"pid", pid}, {"core", core}});
    if (device >= 0) all.back()["device"] = device;
  }
  return all;
}

}  // namespace capstan::perf
