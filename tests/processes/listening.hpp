// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace capstan {

/// The addresses that this process listens on: "tcp 192.0.2.7", "tcp6 ::", "unix @name", sorted.
std::vector<std::string> listening_sockets();

/// The addresses that this process has TCP connections to, sorted, each once.
std::vector<std::string> connected_addresses();

/// The number of pieces of memory without a name that this process has mapped to share them.
int shared_segments();

/// This process's share of what it has used of them, in bytes.
std::size_t bytes_of_segments();

}  // namespace capstan
