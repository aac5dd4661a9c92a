// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "capstan/communicator.hpp"
#include "perf/measure/cell.hpp"
#include "tests/devices/device_array.hpp"

namespace capstan {

/// Runs one call with test data in these kinds of memory. Returns the error in its result, or in
/// memory that it must not change; empty if there is none. In place, `output` is the kind of the
/// buffer.
std::string trouble_with(Communicator& world, const perf::Cell& cell, Where input, Where output,
                         bool background = false);

/// The same for a call of one rank that is made by `run`, which returns when the call has ended.
std::string trouble_with(const perf::Cell& cell, int rank, int ranks, Where input, Where output,
                         const std::function<void(const Request&)>& run);

/// Runs all collectives with buffers in all kinds of memory, in place and not. All ranks call it.
std::string trouble_with_collectives(Communicator& world);

}  // namespace capstan
