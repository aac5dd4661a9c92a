#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transports/transport.hpp"

namespace capstan {

// A transport that is made of others has all their addresses in one.

Address join_addresses(const std::vector<Address>& addresses);

/// These again; nothing where it is not made of so many.
std::vector<Address> split_addresses(std::span<const std::byte> address, std::size_t count);

}  // namespace capstan
