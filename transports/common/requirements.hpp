// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "capstan/quantity.hpp"

namespace capstan {

// Checks of arguments that all transports share.

/// The index of `peer` in lists by rank. Throws InvalidArgument if there is no such rank.
std::size_t require_rank(Rank self, Rank peer, std::size_t ranks);

/// Transport::connect is called once, with an address for each rank. Throws InvalidArgument.
void require_connectable(Rank self, bool connected, std::size_t addresses, std::size_t ranks);

}  // namespace capstan
