// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

#include "tests/temporary_folder.hpp"

namespace capstan::test {

/// A file as lstopo writes it, which exists until the end of a test: two packages of one core. The
/// first has a network card and a GPU behind one switch, and another GPU behind none. The second
/// has a GPU, a disk, and the screen of the server's management.
class MachineWithDevices {
 public:
  MachineWithDevices() { std::ofstream{path_} << text; }
  const std::string& path() const { return path_; }

 private:
  static constexpr const char* text =
      R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" allowed_cpuset="0x3" allowed_nodeset="0x3" cpuset="0x3" complete_cpuset="0x3" nodeset="0x3" complete_nodeset="0x3">
    <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1">
      <object type="NUMANode" os_index="0" local_memory="1048576" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"/>
      <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1">
        <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"/>
      </object>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[00-ff]">
        <object type="Bridge" bridge_type="1-1" depth="1" bridge_pci="0000:[01-0f]"
                pci_busid="0000:00:01.0" pci_type="0604 [8086:0001] [0:0] 00" pci_link_speed="31.5">
          <object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0200 [15b3:1021] [0:0] 00" pci_link_speed="31.5">
            <info name="PCIVendor" value="Paper"/><info name="PCIDevice" value="Adapter &lt;1&gt;"/>
            <object type="OSDev" name="eth7" osdev_type="2"><object type="OSDev" name="mlx5_0" osdev_type="3"/></object>
          </object>
          <object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0302 [10de:2330] [10de:0000] a1" pci_link_speed="31.5">
            <info name="PCIVendor" value="Paper"/><info name="PCIDevice" value="Adapter &lt;1&gt;"/>
            <object type="OSDev" name="card1" osdev_type="1"/>
          </object>
        </object>
          <object type="PCIDev" pci_busid="0000:00:05.0" pci_type="0302 [10de:2330] [10de:0000] a1" pci_link_speed="31.5">
            <info name="PCIVendor" value="Paper"/><info name="PCIDevice" value="Adapter &lt;1&gt;"/>
          </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2">
      <object type="NUMANode" os_index="1" local_memory="1048576" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2"/>
      <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2">
        <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2"/>
      </object>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0001:[00-ff]">
          <object type="PCIDev" pci_busid="0001:01:00.0" pci_type="0302 [10de:2330] [10de:0000] a1" pci_link_speed="31.5">
            <info name="PCIVendor" value="Paper"/><info name="PCIDevice" value="Adapter &lt;1&gt;"/>
          </object>
          <object type="PCIDev" pci_busid="0001:02:00.0" pci_type="0108 [1af4:1042] [0:0] 00" pci_link_speed="31.5">
            <info name="PCIVendor" value="Paper"/><info name="PCIDevice" value="Adapter &lt;1&gt;"/><object type="OSDev" name="nvme0n1" osdev_type="0"/>
          </object>
          <object type="PCIDev" pci_busid="0001:03:00.0" pci_type="0300 [1a03:2000] [0:0] 00" pci_link_speed="31.5">
            <info name="PCIVendor" value="Paper"/><info name="PCIDevice" value="Adapter &lt;1&gt;"/>
          </object>
      </object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 1 </indexes><u64values length="12">10 21 31 10 </u64values>
  </distances2>
</topology>
)";

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "machine.xml";
};

}  // namespace capstan::test
