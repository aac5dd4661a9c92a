// SPDX-License-Identifier: Apache-2.0
#include "topology/io.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "topology/hwloc_reader.hpp"

namespace capstan {

std::string IoDevice::name() const {
  return names.empty() ? bus_id : fmt::format("{}", fmt::join(names, ", "));
}

std::string_view name_of(IoDevice::Kind kind) {
  return kind == IoDevice::Kind::network ? "network" : "gpu";
}

std::string_view name_of(IoPath path) {
  constexpr std::string_view names[] = {"same_device", "same_switch", "same_host_bridge",
                                        "same_numa_node", "same_machine"};
  return names[static_cast<std::size_t>(path)];
}

IoPath path_between(const IoDevice& a, const IoDevice& b) {
  if (&a == &b || (!a.bus_id.empty() && a.bus_id == b.bus_id)) return IoPath::same_device;
  const auto parted = std::ranges::mismatch(a.bridges, b.bridges).in1;
  const auto shared = std::distance(a.bridges.begin(), parted);
  if (shared > 1) return IoPath::same_switch;
  if (shared == 1) return IoPath::same_host_bridge;
  const bool known = a.numa_node != IoDevice::all_nodes;
  return known && a.numa_node == b.numa_node ? IoPath::same_numa_node : IoPath::same_machine;
}

IoTopology IoTopology::discover() {
  return read_io_of_this_machine();
}

IoTopology IoTopology::from_xml(const std::string& path) {
  return read_io_of_xml(path);
}

std::vector<const IoDevice*> IoTopology::nearest(IoDevice::Kind kind, const CpuSet& cpus) const {
  std::vector<const IoDevice*> all;
  std::size_t least = SIZE_MAX;
  for (const IoDevice& device : devices) {
    if (device.kind != kind || !device.near.intersects(cpus) || device.near.size() > least)
      continue;
    if (device.near.size() < least) all.clear();
    least = device.near.size();
    all.push_back(&device);
  }
  return all;
}

}  // namespace capstan
