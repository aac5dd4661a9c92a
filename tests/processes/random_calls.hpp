// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace capstan {

class Communicator;

/// Makes random calls for so long, the same on all ranks: every collective, type, operation, size
/// up to 16 MiB and root, in place and not, in own and allocated memory, one at a time and several
/// in flight, operations of the program, messages, groups of all kinds with algorithms of their
/// own, and now and then a rank that dawdles. Rank 0 prints each minute what it holds. Status 0:
/// all results were right, and no rank's memory, descriptors or threads have grown.
int make_random_calls(Communicator& world, std::chrono::seconds duration, std::uint64_t seed);

}  // namespace capstan
