// Feeds arbitrary text to what reads descriptions of clusters: Capstan's JSON, NCCL's XML, hwloc's.
// It must refuse them with one of Capstan's errors or make a cluster of them.

#include <cmath>

#include "capstan/error.hpp"
#include "core/cli/topology/topology_file.hpp"
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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Source source{data, size};
  try {
    cli::TopologyFile file =
        cli::topology_from_text(std::string{fuzz::text_of(source.rest())}, "file");
    require(file.ranks_per_host >= 1);
    require(file.memory.byte > 0 && std::isfinite(file.memory.byte));
    require(file.memory.latency > 0 && std::isfinite(file.memory.latency));
    for (const char* name : {"call", "send", "receive", "cpu-byte", "copy-byte", "reduce-byte"})
      require(*cost_named(file.costs, name) >= 0);
    static_cast<void>(make_fabric(file.network, 8, file.port_per_rank ? 2 : 1));
  } catch (const Error& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
