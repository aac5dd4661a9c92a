// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/listeners.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/net/host_identity.hpp"
#include "core/platform/net/random.hpp"
#include "transports/tcp/tcp_socket.hpp"

namespace capstan::tcp {

Listeners listen_on_all(std::span<const HostAddress> local, const std::string& congestion_control) {
  Listeners result;
  int error = 0;
  for (const HostAddress& own : local) {
    if (result.sockets.size() == TcpAddress::most_endpoints) break;
    FileDescriptor socket = listen_on(own.ip, congestion_control);
    if (!socket.valid()) {
      error = errno;
      continue;
    }
    result.address.add(local_address(socket).ip_endpoint());
    result.sockets.push_back(std::move(socket));
  }
  if (result.sockets.empty()) {
    throw SystemError(
        fmt::format("cannot listen on any of this host's addresses: {}: is a network "
                    "interface up?",
                    error_text(error)));
  }
  result.address.host = network_identity();
  result.address.id = random_value<JobKey::TransportId>();
  return result;
}

}  // namespace capstan::tcp
