// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/platform/net/socket.hpp"

/// Functions of the kernel that only the TCP transport needs, beyond core/platform/net/socket.hpp.
namespace capstan::tcp {

/// A socket whose connections use that congestion control (empty: the system's). Invalid, with
/// errno set, when there can be none.
FileDescriptor make_socket(const IpAddress& ip, const std::string& congestion_control = {});

/// A socket that listens on a port of `ip` which the system chooses, for connections with that
/// congestion control. Invalid, with errno set, when it cannot. Throws SystemError when there are
/// no descriptors left.
FileDescriptor listen_on(const IpAddress& ip, const std::string& congestion_control = {});

/// Begins to connect. Invalid, with errno set, when that fails at once.
FileDescriptor begin_connect(const IpEndpoint& endpoint,
                             const std::string& congestion_control = {});

/// The congestion control that connections are to use (see TcpOptions); empty: the system's. Throws
/// InvalidArgument when the system does not offer the wanted one.
std::string choose_congestion_control(const std::string& wanted);

/// Data that the other host has not acknowledged yet.
struct Flight {
  bool unacknowledged = false;
  std::uint64_t acknowledged = 0;  // bytes so far
};
Flight flight(int socket);

/// Bytes that have been given to the socket and not been acknowledged by the other host.
std::size_t unsent(int socket);
/// Bytes that can be read at once.
std::size_t available(int socket);

}  // namespace capstan::tcp
