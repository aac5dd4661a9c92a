// SPDX-License-Identifier: Apache-2.0

// Network cards, GPUs and distances, from hwloc.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "topology/hwloc_reader.hpp"
#include "topology/hwloc_topology.hpp"

namespace capstan {
namespace {

using hwloc::objects;
using hwloc::Topology;

/// Devices belong to the smallest part of the machine that is kept.
Topology topology_with_devices() {
  Topology topology =
      hwloc::new_topology({HWLOC_OBJ_PACKAGE, HWLOC_OBJ_DIE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_BRIDGE,
                           HWLOC_OBJ_PCI_DEVICE, HWLOC_OBJ_OS_DEVICE});
  // Groups, such as the parts of a package with memory of their own, cannot be kept by "all".
  hwloc_topology_set_type_filter(topology.get(), HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  return topology;
}

/// ASPEED and Matrox: the screens of servers' management.
bool is_console(const hwloc_obj& device) {
  const auto vendor = device.attr->pcidev.vendor_id;
  return vendor == 0x1a03 || vendor == 0x102b;
}

std::optional<IoDevice::Kind> kind_of_pci(const hwloc_obj& device) {
  if (is_console(device)) return std::nullopt;
  switch (device.attr->pcidev.class_id >> 8) {
    case 0x02:
      return IoDevice::Kind::network;
    case 0x03:  // display
    case 0x12:  // accelerators of computations
      return IoDevice::Kind::gpu;
    default:
      return std::nullopt;
  }
}

std::optional<IoDevice::Kind> kind_of_os(const hwloc_obj& device) {
  switch (device.attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_NETWORK:
    case HWLOC_OBJ_OSDEV_OPENFABRICS:
      return IoDevice::Kind::network;
    case HWLOC_OBJ_OSDEV_GPU:
    case HWLOC_OBJ_OSDEV_COPROC:
      return IoDevice::Kind::gpu;
    default:
      return std::nullopt;
  }
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* const value = hwloc_obj_get_info_by_name(object, name);
  return value ? value : "";
}

std::string model_of(hwloc_obj_t device) {
  const std::string vendor = info(device, "PCIVendor"), model = info(device, "PCIDevice");
  if (!vendor.empty() || !model.empty())
    return vendor + (vendor.empty() || model.empty() ? "" : " ") + model;
  return fmt::format("{:04x}:{:04x}", device->attr->pcidev.vendor_id,
                     device->attr->pcidev.device_id);
}

void add_names(hwloc_obj_t device, std::vector<std::string>& names) {
  for (auto* child = device->io_first_child; child; child = child->next_sibling)
    if (child->type == HWLOC_OBJ_OS_DEVICE) {
      if (child->name && kind_of_os(*child)) names.emplace_back(child->name);
      add_names(child, names);
    }
}

/// The bridges above a device, the host bridge first. One with a single device below it counts as
/// well: the device then shares it with nobody.
std::vector<std::uint64_t> bridges_of(hwloc_obj_t device) {
  std::vector<std::uint64_t> bridges;
  for (auto* above = device->parent; above && above->type == HWLOC_OBJ_BRIDGE;
       above = above->parent)
    bridges.push_back(above->gp_index);
  std::ranges::reverse(bridges);
  return bridges;
}

void place(hwloc_topology* topology, hwloc_obj_t device, IoDevice& io) {
  auto* const above = hwloc_get_non_io_ancestor_obj(topology, device);
  io.near = hwloc::to_cpu_set(above->cpuset);
  if (hwloc_bitmap_weight(above->nodeset) != 1) return;
  const auto* const node = hwloc_get_numanode_obj_by_os_index(
      topology, static_cast<unsigned>(hwloc_bitmap_first(above->nodeset)));
  if (node) io.numa_node = static_cast<int>(node->logical_index);
}

std::vector<IoDevice> read_devices(hwloc_topology* topology) {
  std::vector<IoDevice> devices;
  for (auto* pci : objects(topology, HWLOC_OBJ_PCI_DEVICE)) {
    const auto kind = kind_of_pci(*pci);
    if (!kind) continue;
    const auto& address = pci->attr->pcidev;
    IoDevice& io = devices.emplace_back();
    io.kind = *kind;
    add_names(pci, io.names);
    io.bus_id = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", address.domain, address.bus, address.dev,
                            address.func);
    io.model = model_of(pci);
    io.link_rate = static_cast<double>(address.linkspeed);
    io.bridges = bridges_of(pci);
    place(topology, pci, io);
  }
  return devices;
}

/// Adds devices that are on no PCI bus, such as those of Soft-RoCE. The names of a PCI device are
/// no devices of their own.
void add_others(hwloc_topology* topology, std::vector<IoDevice>& devices) {
  for (auto* object : objects(topology, HWLOC_OBJ_OS_DEVICE)) {
    const auto kind = kind_of_os(*object);
    if (!kind || !object->name) continue;
    const bool has_own =
        object->parent->type != HWLOC_OBJ_PCI_DEVICE && object->parent->type != HWLOC_OBJ_OS_DEVICE;
    if (!has_own) continue;
    IoDevice& io = devices.emplace_back();
    io.kind = *kind;
    io.names = {object->name};
    place(topology, object, io);
  }
}

std::vector<std::vector<double>> read_distances(hwloc_topology* topology) {
  hwloc_distances_s* raw = nullptr;
  unsigned count = 1;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &raw,
                                  HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      count == 0)
    return {};
  const auto release = [&](hwloc_distances_s* known) { hwloc_distances_release(topology, known); };
  const std::unique_ptr<hwloc_distances_s, decltype(release)> distances{raw, release};
  const std::size_t nodes = distances->nbobjs;
  if (nodes != objects(topology, HWLOC_OBJ_NUMANODE).size()) return {};  // of some of them
  std::vector<std::vector<double>> all(nodes, std::vector<double>(nodes));
  for (std::size_t a = 0; a < nodes; ++a)
    for (std::size_t b = 0; b < nodes; ++b)
      all[distances->objs[a]->logical_index][distances->objs[b]->logical_index] =
          static_cast<double>(distances->values[a * nodes + b]);
  return all;
}

IoTopology io_of(hwloc_topology* topology) {
  IoTopology io{.devices = read_devices(topology), .numa_distances = read_distances(topology)};
  add_others(topology, io.devices);
  return io;
}

}  // namespace

IoTopology read_io_of_this_machine() {
  const Topology topology = topology_with_devices();
  hwloc::load_this_machine(topology.get());
  return io_of(topology.get());
}

IoTopology read_io_of_xml(const std::string& path) {
  const Topology topology = topology_with_devices();
  hwloc::load_xml(topology.get(), path);
  return io_of(topology.get());
}

}  // namespace capstan
