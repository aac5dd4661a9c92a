// SPDX-License-Identifier: Apache-2.0
#include "topology/hwloc_topology.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "capstan/error.hpp"

namespace capstan::hwloc {

Topology new_topology(std::initializer_list<hwloc_obj_type_t> kept) {
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0)
    throw SystemError("hwloc could not start: check the memory limit and the hwloc installation");
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (const auto type : kept)
    hwloc_topology_set_type_filter(raw, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  return Topology{raw};
}

/// Without components that run code on every processor in turn, for facts that /sys has as well
/// ("x86"), that start the libraries of GPUs, or that leak ("pci", which finds nothing more).
void load_this_machine(hwloc_topology* topology) {
  constexpr const char* unwanted[] = {"x86",  "pci",  "opencl", "gl",
                                      "cuda", "nvml", "rsmi",   "levelzero"};
  for (const char* const component : unwanted)
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  if (hwloc_topology_load(topology) != 0)
    throw SystemError(
        fmt::format("hwloc could not read this machine's topology: {}; are /proc and "
                    "/sys mounted, and are no HWLOC_ variables set?",
                    std::strerror(errno)));
}

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
  std::vector<unsigned> cpus;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu))
    cpus.push_back(static_cast<unsigned>(cpu));
  return CpuSet{std::move(cpus)};
}

std::vector<hwloc_obj_t> objects(hwloc_topology* topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> all;
  for (auto* object = hwloc_get_next_obj_by_type(topology, type, nullptr); object != nullptr;
       object = hwloc_get_next_obj_by_type(topology, type, object))
    all.push_back(object);
  return all;
}

}  // namespace capstan::hwloc
