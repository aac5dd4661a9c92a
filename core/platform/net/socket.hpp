// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/platform/net/endpoint.hpp"
#include "core/platform/net/file_descriptor.hpp"

/// Stream sockets. All are non-blocking, and closed by exec().
namespace capstan {

/// A read or write would have to wait.
bool would_block(int error);
/// The process, or the system, has no descriptors or memory left.
bool out_of_resources(int error);
/// The system's text for an errno value.
std::string error_text(int error);

/// A new socket. Invalid, with errno set, when this system lacks the address family, or no
/// descriptors are left.
FileDescriptor make_socket(int family);
/// Throws SystemError with the remedy if `error`, an errno value, means that no descriptors are
/// left.
void require_descriptors(int error);

/// Binds a socket and listens. False, with errno set, when it cannot.
bool start_listening(const FileDescriptor& socket, const SocketAddress& address);
/// A listening socket on the first address that can be bound. Throws SystemError naming the
/// address and what to do: another process has it, it is not this host's, it needs privileges.
FileDescriptor listen_on(const SocketEndpoint& endpoint);

/// The abstract names in use on this host that begin so; none where the kernel does not tell.
std::vector<std::string> abstract_names(std::string_view prefix);
/// Whether a process of this user listens on an abstract name.
bool is_own_listener(const AbstractEndpoint& endpoint);

/// A connection that another process has opened. Without one the socket is invalid and `error` an
/// errno value.
struct Accepted {
  FileDescriptor socket;
  SocketAddress from{};
  int error = 0;
};
Accepted accept_from(const FileDescriptor& listener);

/// Begins to connect. False, with errno set, when that fails at once.
bool start_connecting(const FileDescriptor& socket, const SocketAddress& address);
/// The error of an attempt to connect that has ended, 0 for success.
int connect_result(const FileDescriptor& socket);
/// Connects within `deadline`. On failure the descriptor is empty and `error` an errno value,
/// ETIMEDOUT if the deadline passed. Throws SystemError when no descriptors are left.
struct Connected {
  FileDescriptor socket;
  int error = 0;
};
Connected connect_to(const SocketAddress& address, Deadline deadline);

/// The address that a socket is bound to.
SocketAddress local_address(const FileDescriptor& socket);
/// The user that made the socket at the other end of a Unix socket connection.
uid_t peer_uid(const FileDescriptor& socket);

/// Sets an option. A socket that refuses one of these still works, only less well.
bool set_option(const FileDescriptor& socket, int level, int option, int value);
/// Settings of a TCP connection, at both ends: small messages are not delayed, and a host that does
/// not answer for `timeout` while nothing is sent ends the connection.
void tune(const FileDescriptor& socket, std::chrono::milliseconds timeout);

/// Waits for poll(2) `events`. False if the deadline passes first.
bool wait_for(const FileDescriptor& socket, short events, Deadline deadline);

/// Reads or writes as many bytes as is possible at once. Returns their number, 0 at the end of the
/// stream, or -1 with errno set. Signals do not interrupt these functions.
ssize_t receive_some(const FileDescriptor& socket, std::span<std::byte> bytes);
ssize_t send_some(const FileDescriptor& socket, std::span<const std::byte> bytes);
/// Sends all of a short message. False, with errno set, when not all of it fits.
bool send_all(const FileDescriptor& socket, std::span<const std::byte> message);

}  // namespace capstan
