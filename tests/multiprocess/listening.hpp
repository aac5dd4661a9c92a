#pragma once

#include <string>
#include <vector>

namespace capstan {

/// What this process listens on: "tcp 192.0.2.7", "tcp6 ::", "unix @name", sorted.
std::vector<std::string> listening_sockets();

}  // namespace capstan
