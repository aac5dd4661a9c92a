#pragma once

#include <string>

#include "capstan/communicator.hpp"
#include "perf/measure/cell.hpp"
#include "tests/devices/device_array.hpp"

namespace capstan {

/// One call with test data in such memory: what is wrong with its result, or with memory that it
/// must not change; empty if nothing is. In place, `output` says where the buffer lies.
std::string trouble_with(Communicator& world, const perf::Cell& cell, Where input, Where output,
                         bool background = false);

/// All collectives with buffers here and there, in place and not; all ranks call it.
std::string trouble_with_collectives(Communicator& world);

}  // namespace capstan
