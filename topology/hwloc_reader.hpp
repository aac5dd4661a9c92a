#pragma once

#include "topology/machine.hpp"

namespace capstan {

// The only part that knows hwloc.

/// This machine; of `allowed`, what it has is usable. Throws SystemError.
MachineDescription read_this_machine(const CpuSet& allowed);
/// Throw InvalidArgument.
MachineDescription read_xml(const std::string& path);
MachineDescription read_synthetic(const std::string& description);

}  // namespace capstan
