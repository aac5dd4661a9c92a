// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/platform/net/file_descriptor.hpp"
#include "transports/tcp/tcp_address.hpp"

namespace capstan::tcp {

/// The listening sockets of this rank, and its address.
struct Listeners {
  std::vector<FileDescriptor> sockets;
  TcpAddress address;
};

/// Listens on each of these addresses, as many as fit into a TcpAddress, on ports that the system
/// chooses, for connections with that congestion control. Throws SystemError when it can listen on
/// none.
Listeners listen_on_all(std::span<const HostAddress> local, const std::string& congestion_control);

}  // namespace capstan::tcp
