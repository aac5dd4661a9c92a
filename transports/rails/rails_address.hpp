#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transports/transport.hpp"

namespace capstan::rails {

/// The addresses that a rank has on its rails, in one.
Address join(const std::vector<Address>& addresses);

/// These again; nothing where it is not the address of a rank with so many rails.
std::vector<Address> split(std::span<const std::byte> address, std::size_t rails);

}  // namespace capstan::rails
