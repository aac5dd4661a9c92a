#pragma once

#include <cstddef>

#include "capstan/quantity.hpp"

namespace capstan {

// What callers of a transport must keep to, whichever it is.

/// The index of a rank in lists by rank. Throws InvalidArgument for one that does not exist.
std::size_t require_rank(Rank self, Rank peer, std::size_t ranks);

/// Transport::connect is called once, with an address for each rank. Throws InvalidArgument.
void require_connectable(Rank self, bool connected, std::size_t addresses, std::size_t ranks);

}  // namespace capstan
