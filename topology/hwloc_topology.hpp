// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that the readers of hwloc's topologies share. For hwloc_*.cpp alone.

#include <hwloc.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "topology/cpu_set.hpp"

namespace capstan::hwloc {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

/// Not loaded yet. Of the types of objects that may be left out, it has those in `kept`. Throws
/// SystemError.
Topology new_topology(std::initializer_list<hwloc_obj_type_t> kept);

/// This machine, by what the kernel tells of it. Throws SystemError.
void load_this_machine(hwloc_topology* topology);
/// A file of lstopo, whatever is in it: a child process reads it first. Throws InvalidArgument.
void load_xml(hwloc_topology* topology, const std::string& path);

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap);

/// Objects of one type, in hwloc's logical order, which is their physical order.
std::vector<hwloc_obj_t> objects(hwloc_topology* topology, hwloc_obj_type_t type);

}  // namespace capstan::hwloc
