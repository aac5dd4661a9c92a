// SPDX-License-Identifier: Apache-2.0

// Feeds arbitrary text to what reads descriptions of clusters: Capstan's JSON, NCCL's XML, hwloc's.
// It must refuse them with one of Capstan's errors or make a cluster of them.

#include <cmath>

#include "capstan/error.hpp"
#include "core/tools/cli/topology/topology_file.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace capstan;
using fuzz::require;

std::vector<std::string> fuzz::seeds() {
  return {
      R"({"format": "capstan-topology", "version": 1, "name": "racks", "machine": "1f",
 "host": {"ranks": 4, "ports": 4, "memory": {"name": "bus", "latency": 90, "bandwidth": 12.5}},
 "network": {"kind": "fat-tree", "radix": 32, "oversubscription": 2, "latency": 1e2},
 "costs": {"send": 600, "cpu-byte": 0}})",
      R"({"format": "capstan-topology", "version": 1, "network": {"kind": "torus", "dims": [4, 2]}})",
      R"(<system version="1"><cpu numaid="0"><pci busid="0:1" link_speed="16.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="90" rank="0"><nvlink target="0:2" count="18"/></gpu></pci>
<nic><net name="mlx5_0" speed="400000"/></nic></cpu></system>)",
      R"(<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x1"
 complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1"><object type="NUMANode" os_index="0" cpuset="0x3"
 complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1073741824"/>
<object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
 gp_index="3"><object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1"
 complete_nodeset="0x1" gp_index="4"/></object><object type="PU" os_index="1" cpuset="0x2"
 complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/></object></topology>)"};
}

namespace {

constexpr int ports = 8;

bool is_usable(double value) {
  return value > 0 && std::isfinite(value);
}

/// Links carry messages in finite times, and routes are made of links.
void require_usable(const Fabric& fabric) {
  require(fabric.ports() == ports && fabric.links() >= 2 * ports);
  for (const LinkClass& link : fabric.classes())
    require(is_usable(link.byte) && is_usable(link.latency));
  for (int from = 0; from < ports; ++from)
    for (int to = 0; to < ports; ++to) {
      std::vector<int> way;
      fabric.route(from, to, way);
      for (const int link : way) require(link >= 0 && link < fabric.links());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  try {
    cli::TopologyFile file =
        cli::topology_from_text(std::string{fuzz::text_of(source.rest())}, "file");
    require(file.ranks_per_host >= 1);
    require(is_usable(file.memory.byte) && is_usable(file.memory.latency));
    for (const char* name : {"call", "send", "receive", "cpu-byte", "copy-byte", "reduce-byte"})
      require(*cost_named(file.costs, name) >= 0 && std::isfinite(*cost_named(file.costs, name)));
    require_usable(*make_fabric(file.network, ports, file.port_per_rank() ? 2 : 1));
  } catch (const Error& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
