// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpu_set.hpp"

namespace capstan {

/// A network card or a GPU of a machine.
struct IoDevice {
  enum class Kind : std::uint8_t { network, gpu };
  static constexpr int all_nodes = -1;  ///< as near to one NUMA node as to another, or not known

  Kind kind = Kind::network;
  std::vector<std::string>
      names;                  ///< as the system calls it: "eth0", "mlx5_0", "card0"; maybe none
  std::string bus_id;         ///< on PCI: "0000:3b:00.0"; empty where it is on none
  std::string model;          ///< of the database of PCI devices; may be empty
  double link_rate = 0;       ///< of its PCI link, in GB/s; 0: not known
  int numa_node = all_nodes;  ///< the nearest
  CpuSet near;                ///< the processing units that are nearest
  std::vector<std::uint64_t> bridges;  ///< from the processor on, the host bridge first

  /// "eth0, mlx5_0", or else the address.
  std::string name() const;
};

std::string_view name_of(IoDevice::Kind kind);

/// The path of transfers between two devices, nearest first.
enum class IoPath : std::uint8_t {
  same_device,
  same_switch,       ///< a PCI switch below the host bridge
  same_host_bridge,  ///< the processor's root complex
  same_numa_node,    ///< two root complexes of a NUMA node
  same_machine       ///< the link between NUMA nodes
};

std::string_view name_of(IoPath path);
IoPath path_between(const IoDevice& a, const IoDevice& b);

/// The network cards and GPUs of a machine, and how far its NUMA nodes are from each other.
struct IoTopology {
  std::vector<IoDevice> devices;
  /// Relative latencies as firmware tells them: 10 for the own node. Empty where it tells none.
  std::vector<std::vector<double>> numa_distances;

  /// This machine. Reads all of the PCI bus: Machine::discover(), which programs need when they
  /// start, leaves this out. Throws SystemError.
  static IoTopology discover();
  /// A machine saved with `lstopo FILE.xml`. Throws InvalidArgument.
  static IoTopology from_xml(const std::string& path);

  /// The devices of a kind that lie in the smallest part of the machine around `cpus` that has any.
  /// None where all are in other parts.
  std::vector<const IoDevice*> nearest(IoDevice::Kind kind, const CpuSet& cpus) const;
};

}  // namespace capstan
