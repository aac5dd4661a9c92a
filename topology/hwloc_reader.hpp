// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "topology/io.hpp"
#include "topology/machine.hpp"

namespace capstan {

// Only hwloc_*.cpp use hwloc.

/// This machine, with the part of `allowed` that exists as usable. Throws SystemError.
MachineDescription read_this_machine(const CpuSet& allowed);
/// A machine from an XML file of lstopo, or in hwloc's synthetic notation. Throw InvalidArgument.
MachineDescription read_xml(const std::string& path);
MachineDescription read_synthetic(const std::string& description);

/// Devices and distances of this machine. Throws SystemError.
IoTopology read_io_of_this_machine();
/// The same of an XML file of lstopo. Throws InvalidArgument.
IoTopology read_io_of_xml(const std::string& path);

}  // namespace capstan
