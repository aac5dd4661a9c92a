// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transports/transport.hpp"

namespace capstan {

// The address of a transport that is made of others holds all their addresses.

Address join_addresses(const std::vector<Address>& addresses);

/// The inverse. Empty if `address` does not hold exactly `count` addresses.
std::vector<Address> split_addresses(std::span<const std::byte> address, std::size_t count);

}  // namespace capstan
