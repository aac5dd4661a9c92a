// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <tuple>

#include "core/platform/net/host_identity.hpp"
#include "core/tools/cli/topo/scene.hpp"
#include "perf/measure/folded.hpp"

namespace capstan::cli {
namespace {

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string index_text(int index) {
  return index == Core::none ? "-" : fmt::format("{}", index);
}

void print_fact(std::string_view label, std::string_view fact) {
  perf::print_folded("{:<9} {}\n", label, fact);
}

std::string cache_text(const Machine& machine, std::string_view name, Bytes size,
                       std::span<const Cache> caches) {
  if (caches.empty()) return fmt::format("{} unknown", name);
  const int sharing = machine.cores_sharing(caches.front());
  return fmt::format("{} {} per {}", name, size_text(size),
                     sharing == 1 ? "core" : fmt::format("{} cores", sharing));
}

void print_machine(const Machine& machine) {
  std::size_t units = 0;
  for (const Core& core : machine.every_core()) units += core.processing_units.size();
  print_fact("Machine", fmt::format("{}{}, {}", machine.name().empty() ? "" : machine.name() + ": ",
                                    counted(machine.every_core().size(), "core"),
                                    counted(units, "hardware thread")));
  print_fact("Usable",
             fmt::format("{} (CPUs {}), {}, {}", counted(machine.cores().size(), "core"),
                         to_string(machine.processing_units()),
                         counted(static_cast<std::size_t>(machine.packages()), "package"),
                         counted(static_cast<std::size_t>(machine.numa_nodes()), "NUMA node")));
  print_fact("Caches", fmt::format("L1d {}; {}; {}", size_text(machine.l1d()),
                                   cache_text(machine, "L2", machine.l2(), machine.l2_caches()),
                                   cache_text(machine, "L3", machine.l3(), machine.l3_caches())));
}

/// Prints one line for each sequence of cores with the same package, NUMA node and L3.
void print_cores(const Machine& machine) {
  perf::print_folded("\n{:>7}  {:>4}  {:>3}  {:<12}  {}\n", "package", "NUMA", "L3", "cores",
                     "CPUs");
  const auto place = [](const Core& core) {
    return std::tuple{core.package, core.numa_node, core.l3};
  };
  const auto cores = machine.cores();
  for (std::size_t first = 0, next; first < cores.size(); first = next) {
    std::vector<unsigned> indices;
    CpuSet cpus;
    for (next = first; next < cores.size() && place(cores[next]) == place(cores[first]); ++next) {
      indices.push_back(static_cast<unsigned>(cores[next].index));
      cpus = cpus | cores[next].processing_units;
    }
    perf::print_folded("{:>7}  {:>4}  {:>3}  {:<12}  {}\n", cores[first].package,
                       cores[first].numa_node, index_text(cores[first].l3), to_ranges(indices),
                       to_string(cpus));
  }
}

void print_placement(const Scene& scene) {
  perf::print_folded("\n{:>4}  {:>4}  {:>2}  {:>2}  {:>4}  {:>7}  {}\n", "rank", "core", "L2", "L3",
                     "NUMA", "package", "CPUs");
  for (std::size_t rank = 0; rank < scene.placement.size(); ++rank) {
    const Core& core = scene.core_of_rank(rank);
    perf::print_folded("{:>4}  {:>4}  {:>2}  {:>2}  {:>4}  {:>7}  {}\n", rank, core.index,
                       index_text(core.l2), index_text(core.l3), core.numa_node, core.package,
                       to_string(scene.placement[rank]));
  }
}

/// Groups of ranks with the same value of `place`, as "0-3 | 4-7"; empty if no two ranks share one.
std::string sharing_text(const Scene& scene, int Core::* place) {
  std::map<int, std::vector<unsigned>> ranks_of;
  for (std::size_t rank = 0; rank < scene.placement.size(); ++rank)
    ranks_of[scene.core_of_rank(rank).*place].push_back(static_cast<unsigned>(rank));
  std::vector<std::string> groups;
  for (const auto& [index, ranks] : ranks_of)
    if (index != Core::none && ranks.size() > 1) groups.push_back(to_ranges(ranks));
  return fmt::format("{}", fmt::join(groups, " | "));
}

void print_sharing(const Scene& scene) {
  constexpr std::pair<const char*, int Core::*> levels[] = {{"core", &Core::index},
                                                            {"L2", &Core::l2},
                                                            {"L3", &Core::l3},
                                                            {"NUMA node", &Core::numa_node},
                                                            {"package", &Core::package}};
  perf::print_folded("\nRanks that share a\n");
  for (const auto& [name, place] : levels) {
    const std::string groups = sharing_text(scene, place);
    perf::print_folded("  {:<9}  {}\n", name, groups.empty() ? "none" : groups);
  }
}

char letter_of(Proximity proximity) {
  constexpr std::string_view letters = "C23PM";
  return letters[static_cast<std::size_t>(proximity)];
}

/// Ranks of the widest table; lines of a wider one would wrap.
constexpr std::size_t widest_matrix = 32;

void print_proximity(const Scene& scene) {
  if (static_cast<int>(3 * scene.placement.size()) + 2 > perf::line_width() ||
      scene.placement.size() > widest_matrix) {
    fmt::print("\nThe proximity of {} ranks is too wide for a table: see --json.\n",
               scene.placement.size());
    return;
  }
  perf::print_folded(
      "\nProximity (C same core, 2 same L2, 3 same L3, P same package, M same machine)\n ");
  for (std::size_t b = 0; b < scene.placement.size(); ++b) fmt::print(" {:>2}", b);
  for (std::size_t a = 0; a < scene.placement.size(); ++a) {
    fmt::print("\n{:>2}", a);
    for (std::size_t b = 0; b < scene.placement.size(); ++b)
      fmt::print("{}{}", b == 0 ? " " : "  ",
                 a == b
                     ? '.'
                     : letter_of(proximity(scene.machine, scene.placement[a], scene.placement[b])));
  }
  fmt::print("\n");
}

/// Up to so many devices fit into one table.
constexpr std::size_t most_devices = 32;

void print_devices(const Scene& scene) {
  const auto& devices = scene.io.devices;
  if (devices.empty()) return;
  perf::print_folded("\n{:<20} {:<8} {:<13} {:>9} {:>5}  {:<10}  {}\n", "device", "kind", "PCI",
                     "link", "NUMA", "near CPUs", "model");
  for (const IoDevice& device : devices)
    perf::print_folded("{:<20} {:<8} {:<13} {:>9} {:>5}  {:<10}  {}\n", device.name(),
                       name_of(device.kind), device.bus_id.empty() ? "-" : device.bus_id,
                       device.link_rate > 0 ? fmt::format("{:.1f} GB/s", device.link_rate) : "-",
                       index_text(device.numa_node), to_string(device.near), device.model);
}

void print_paths(const IoTopology& io) {
  constexpr std::string_view letters = ".SHNM";
  const std::size_t count = io.devices.size();
  if (count < 2) return;
  if (count > most_devices) {
    fmt::print("\nThe paths between {} devices are too wide for a table: see --json.\n", count);
    return;
  }
  perf::print_folded(
      "\nPaths between devices (S same PCI switch, H same host bridge, N same NUMA node, M same "
      "machine)\n");
  for (const IoDevice& a : io.devices) {
    fmt::print("{:<20}", a.name());
    for (const IoDevice& b : io.devices)
      fmt::print(" {}", letters[static_cast<std::size_t>(path_between(a, b))]);
    fmt::print("\n");
  }
}

void print_distances(const IoTopology& io) {
  if (io.numa_distances.size() < 2) return;
  fmt::print("\nDistances of NUMA nodes, as firmware tells them\n ");
  for (std::size_t b = 0; b < io.numa_distances.size(); ++b) fmt::print(" {:>4}", b);
  for (std::size_t a = 0; a < io.numa_distances.size(); ++a) {
    fmt::print("\n{}", a);
    for (const double distance : io.numa_distances[a]) fmt::print(" {:>4}", distance);
  }
  fmt::print("\n");
}

/// The network cards and GPUs nearest to each rank.
void print_nearest(const Scene& scene) {
  if (scene.io.devices.empty()) return;
  perf::print_folded("\nNearest to rank\n");
  for (std::size_t rank = 0; rank < scene.placement.size(); ++rank) {
    std::vector<std::string> names;
    for (const auto kind : {IoDevice::Kind::network, IoDevice::Kind::gpu})
      for (const IoDevice* const device : scene.io.nearest(kind, scene.placement[rank]))
        names.push_back(device->name());
    perf::print_folded("{:>4}  {}\n", rank,
                       names.empty() ? "none in its part of the machine"
                                     : fmt::format("{}", fmt::join(names, "; ")));
  }
}

}  // namespace

std::string size_text(Bytes bytes) {
  if (bytes == Bytes{0}) return "of unknown size";
  const std::uint64_t kib = bytes.value() >> 10;
  if (kib < 1024) return fmt::format("{} KiB", kib);
  return fmt::format("{:.4g} MiB", static_cast<double>(bytes.value()) / (1 << 20));
}

void print_text(const Scene& scene) {
  const ChunkChoice chunk = choose_chunk(scene.machine, scene.placement);
  print_machine(scene.machine);
  print_fact("Chunk", fmt::format("{} for {}: {}", size_text(chunk.bytes),
                                  counted(scene.placement.size(), "rank"), chunk.reason));
  if (scene.is_here) print_fact("Host", host_identity());
  print_cores(scene.machine);
  print_devices(scene);
  print_paths(scene.io);
  print_distances(scene.io);
  if (!scene.ranks_asked) return;
  print_placement(scene);
  print_sharing(scene);
  print_proximity(scene);
  print_nearest(scene);
}

}  // namespace capstan::cli
