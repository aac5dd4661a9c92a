// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "capstan/communicator.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {

/// Numbers of elements. The last one is many blocks.
inline constexpr auto counts =
    sanitized ? std::array<std::size_t, 11>{0, 1, 2, 3, 7, 14, 15, 16, 17, 100, 5003}
              : std::array<std::size_t, 11>{0, 1, 2, 3, 7, 14, 15, 100, 1000, 4099, 70001};

/// Whether a call is right, in place and not; largest buffers of `count` elements.
bool correct(Communicator& world, Collective collective, DataType type, ReduceOp op,
             std::size_t count, int root = 0);

/// All collectives, or the one that is named, with every type and operation. 0: they were right.
int everything(Communicator& world, std::string_view name);
/// The same with a few types and operations.
int everything_in_few_types(Communicator& world, std::string_view name);

}  // namespace capstan
