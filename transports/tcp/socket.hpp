#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "core/net/file_descriptor.hpp"
#include "transports/tcp/tcp_address.hpp"

/// The calls that concern sockets; all of them are non-blocking, and closed by exec().
namespace capstan::tcp {

inline constexpr std::string_view descriptor_remedy =
    "raise the limit of open files (ulimit -n), one is needed for each peer";

bool would_block(int error);

/// A socket that listens on a port of `ip` which the system chooses, for connections with that
/// congestion control (empty: the system's). Invalid, with errno set, when it cannot. Throws
/// SystemError when there are no descriptors left.
FileDescriptor listen_on(const IpAddress& ip, const std::string& congestion_control = {});
Endpoint local_endpoint(int socket);

/// A connection that somebody has opened.
struct Accepted {
  FileDescriptor socket;  // invalid, with errno set, when there is none
  std::string from;
};
Accepted accept_from(int listener);

/// Begins to connect. Invalid, with errno set, when that fails at once.
FileDescriptor begin_connect(const Endpoint& endpoint, const std::string& congestion_control = {});
/// The error of a connection attempt that has ended, 0 for success.
int connect_result(int socket);

/// Settings of a connection, at both ends: nothing is held back to be sent in larger packets, and
/// a host that does not answer for `timeout` while nothing is sent ends the connection.
void tune(int socket, std::chrono::milliseconds timeout);
/// The one that connections are to use (see TcpOptions); empty: the system's. Throws
/// InvalidArgument when the wanted one is not to be had.
std::string choose_congestion_control(const std::string& wanted);

/// Whether data is on its way to a host that has not acknowledged any of it.
struct Flight {
  bool unacknowledged = false;
  std::uint64_t acknowledged = 0;  // bytes so far
};
Flight flight(int socket);

/// Bytes that have been given to the socket and not been acknowledged by the other host.
std::size_t unsent(int socket);
/// Bytes that can be read at once.
std::size_t available(int socket);

/// Sends all of a short message. False, with errno set, when not all of it fits.
bool send_all(int socket, std::span<const std::byte> message);

std::string error_text(int error);

}  // namespace capstan::tcp
