// SPDX-License-Identifier: Apache-2.0
#include "topology/hwloc_reader.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "topology/hwloc_topology.hpp"

namespace capstan {
namespace {

using hwloc::objects;
using hwloc::to_cpu_set;
using hwloc::Topology;

Topology new_topology() {
  Topology topology = hwloc::new_topology(
      {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE, HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE});
#if HWLOC_API_VERSION >= 0x00020800
  hwloc_topology_set_flags(
      topology.get(), hwloc_topology_get_flags(topology.get()) | HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
                          HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
#endif
  return topology;
}

int ancestor_index(hwloc_topology* topology, hwloc_obj_type_t type, hwloc_obj_t object,
                   int if_absent) {
  const auto* ancestor = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return ancestor == nullptr ? if_absent : static_cast<int>(ancestor->logical_index);
}

int numa_node_of(hwloc_topology* topology, hwloc_obj_t object) {
  const int first = hwloc_bitmap_first(object->nodeset);
  const auto* node =
      first < 0 ? nullptr
                : hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(first));
  return node == nullptr ? 0 : static_cast<int>(node->logical_index);
}

/// `object` is a core, or a processing unit without one.
Core read_core(hwloc_topology* topology, hwloc_obj_t object, int index) {
  return {.index = index,
          .package = ancestor_index(topology, HWLOC_OBJ_PACKAGE, object, 0),
          .numa_node = numa_node_of(topology, object),
          .l2 = ancestor_index(topology, HWLOC_OBJ_L2CACHE, object, Core::none),
          .l3 = ancestor_index(topology, HWLOC_OBJ_L3CACHE, object, Core::none),
          .processing_units = to_cpu_set(object->cpuset)};
}

std::vector<Core> read_cores(hwloc_topology* topology) {
  std::vector<Core> cores;
  const hwloc_obj* last = nullptr;
  for (auto* unit : objects(topology, HWLOC_OBJ_PU)) {
    auto* core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit);
    if (core == nullptr) core = unit;
    if (core != last) cores.push_back(read_core(topology, core, static_cast<int>(cores.size())));
    last = core;
  }
  return cores;
}

std::vector<Cache> read_caches(hwloc_topology* topology, hwloc_obj_type_t type) {
  std::vector<Cache> caches;
  for (const auto* cache : objects(topology, type))
    caches.push_back({Bytes{cache->attr->cache.size}, to_cpu_set(cache->cpuset)});
  return caches;
}

std::string read_name(hwloc_topology* topology) {
  auto* package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  for (auto* object : {package, hwloc_get_root_obj(topology)})
    if (object != nullptr)
      if (const char* name = hwloc_obj_get_info_by_name(object, "CPUModel")) return name;
  return {};
}

MachineDescription describe(hwloc_topology* topology) {
  return {.name = read_name(topology),
          .cores = read_cores(topology),
          .l1d_caches = read_caches(topology, HWLOC_OBJ_L1CACHE),
          .l2_caches = read_caches(topology, HWLOC_OBJ_L2CACHE),
          .l3_caches = read_caches(topology, HWLOC_OBJ_L3CACHE),
          .usable = to_cpu_set(hwloc_topology_get_allowed_cpuset(topology))};
}

}  // namespace

MachineDescription read_this_machine(const CpuSet& allowed) {
  const Topology topology = new_topology();
  hwloc::load_this_machine(topology.get());
  MachineDescription machine = describe(topology.get());
  machine.usable = to_cpu_set(hwloc_topology_get_topology_cpuset(topology.get())) & allowed;
  if (machine.usable.empty()) {
    throw SystemError(
        fmt::format("hwloc knows none of the processors {} that this thread may run "
                    "on: unset HWLOC_XMLFILE and HWLOC_SYNTHETIC, which describe "
                    "another machine",
                    to_string(allowed)));
  }
  return machine;
}

MachineDescription read_xml(const std::string& path) {
  const Topology topology = new_topology();
  hwloc::load_xml(topology.get(), path);
  return describe(topology.get());
}

MachineDescription read_synthetic(const std::string& description) {
  const Topology topology = new_topology();
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw InvalidArgument(
        fmt::format("'{}' describes no machine: expected hwloc's notation, from "
                    "the outside in, such as \"package:2 numa:1 l3:1 core:4 "
                    "pu:2\"",
                    description));
  }
  return describe(topology.get());
}

}  // namespace capstan
