#include "topology/machine.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>

#include "core/ir/error.hpp"

namespace capstan {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Topology make_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0)
    throw SystemError("hwloc cannot be initialised: out of memory?");
  // Devices take long to discover and do not matter here.
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  return Topology{topology};
}

CpuSet cpus_of(hwloc_const_cpuset_t set) {
  CpuSet cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
    cpus.push_back(cpu);
  return cpus;
}

int ancestor_index(hwloc_topology_t topology, hwloc_obj_t object, hwloc_obj_type_t type) {
  const hwloc_obj_t ancestor = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return ancestor ? static_cast<int>(ancestor->logical_index) : -1;
}

int numa_index(hwloc_topology_t topology, hwloc_obj_t core) {
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
    if (hwloc_bitmap_intersects(node->cpuset, core->cpuset))
      return static_cast<int>(node->logical_index);
  return -1;
}

Bytes cache_size(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
  return Bytes{cache ? cache->attr->cache.size : 0};
}

}  // namespace

std::string to_string(const CpuSet& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

std::string_view name_of(Proximity proximity) {
  constexpr std::string_view names[] = {"same core",      "same L2",      "same L3",
                                        "same NUMA node", "same package", "same machine"};
  return names[static_cast<int>(proximity)];
}

Machine Machine::read(void* opaque) {
  const auto topology = static_cast<hwloc_topology_t>(opaque);
  Machine machine;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, object)))
    machine.cores_.push_back({.processing_units = cpus_of(object->cpuset),
                              .package = ancestor_index(topology, object, HWLOC_OBJ_PACKAGE),
                              .numa_node = numa_index(topology, object),
                              .l2 = ancestor_index(topology, object, HWLOC_OBJ_L2CACHE),
                              .l3 = ancestor_index(topology, object, HWLOC_OBJ_L3CACHE)});
  // Some virtual machines show processing units without cores.
  if (machine.cores_.empty())
    while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, object)))
      machine.cores_.push_back({.processing_units = cpus_of(object->cpuset)});
  machine.packages_ = std::max(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), 1);
  machine.numa_nodes_ = std::max(hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), 1);
  machine.caches_[0] = cache_size(topology, HWLOC_OBJ_L1CACHE);
  machine.caches_[1] = cache_size(topology, HWLOC_OBJ_L2CACHE);
  machine.caches_[2] = cache_size(topology, HWLOC_OBJ_L3CACHE);
  return machine;
}

Machine Machine::discover() {
  const Topology topology = make_topology();
  if (hwloc_topology_load(topology.get()) != 0)
    throw SystemError("hwloc cannot discover this machine: is /sys mounted?");
  // The affinity of this process, besides what its cgroup allows, which hwloc knows.
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(topology.get(), allowed, HWLOC_CPUBIND_PROCESS) == 0)
    hwloc_topology_restrict(topology.get(), allowed, 0);
  hwloc_bitmap_free(allowed);
  Machine machine = read(topology.get());
  if (machine.cores_.empty()) throw SystemError("hwloc finds no processor that may be used");
  return machine;
}

Machine Machine::synthetic(const std::string& description) {
  const Topology topology = make_topology();
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0)
    throw InvalidArgument(fmt::format(
        "hwloc does not understand the machine '{}': describe it like 'package:2 l3:1 core:4 pu:2'",
        description));
  return read(topology.get());
}

int Machine::processing_units() const {
  int units = 0;
  for (const Core& core : cores_) units += static_cast<int>(core.processing_units.size());
  return units;
}

std::vector<CpuSet> Machine::place_ranks(int ranks) const {
  const auto cores = cores_.size(), count = static_cast<std::size_t>(ranks);
  std::vector<CpuSet> places;
  for (std::size_t rank = 0; rank < count; ++rank)
    places.push_back(cores_[count <= cores ? rank * cores / count : rank % cores].processing_units);
  return places;
}

Proximity Machine::proximity(const CpuSet& a, const CpuSet& b) const {
  const auto core_of = [&](const CpuSet& cpus) -> const Core& {
    const auto found = std::ranges::find_if(cores_, [&](const Core& core) {
      return std::ranges::find(core.processing_units, cpus.front()) != core.processing_units.end();
    });
    if (found == cores_.end())
      throw InvalidArgument(fmt::format("processor {} is not of this machine", cpus.front()));
    return *found;
  };
  const Core &x = core_of(a), &y = core_of(b);
  const auto shared = [](int i, int j) { return i >= 0 && i == j; };
  if (&x == &y) return Proximity::same_core;
  if (shared(x.l2, y.l2)) return Proximity::same_l2;
  if (shared(x.l3, y.l3)) return Proximity::same_l3;
  if (shared(x.numa_node, y.numa_node)) return Proximity::same_numa_node;
  return shared(x.package, y.package) ? Proximity::same_package : Proximity::same_machine;
}

Bytes Machine::chunk() const {
  constexpr Bytes least{64 << 10}, most{512 << 10}, usual{256 << 10};
  if (cache(2) == Bytes{0}) return usual;
  return std::clamp(cache(2) / 4, least, most);
}

CpuSet current_binding() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CpuSet cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void bind_this_thread(const CpuSet& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    throw SystemError(fmt::format(
        "cannot bind to processors {}: they are not among those that this process may use ({})",
        to_string(cpus), to_string(current_binding())));
}

}  // namespace capstan
