#pragma once

#include "topology/machine.hpp"

namespace capstan {

// The only files that use hwloc.

/// This machine, with the part of `allowed` that exists as usable. Throws SystemError.
MachineDescription read_this_machine(const CpuSet& allowed);
/// A machine from an XML file of lstopo, or in hwloc's synthetic notation. Throw InvalidArgument.
MachineDescription read_xml(const std::string& path);
MachineDescription read_synthetic(const std::string& description);

}  // namespace capstan
