#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/net/file_descriptor.hpp"

namespace capstan {

/// A host name or a numeric IPv4 or IPv6 address, and a port. Port 0: the system chooses one.
struct TcpEndpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  bool operator==(const TcpEndpoint&) const = default;
};

/// A name in Linux's abstract Unix socket namespace: seen on this host only (by processes of the
/// same network namespace) and gone with the last process that listens on it.
struct AbstractEndpoint {
  std::string name;
  bool operator==(const AbstractEndpoint&) const = default;
};

using Endpoint = std::variant<TcpEndpoint, AbstractEndpoint>;

/// "127.0.0.1:4711", "[::1]:4711", "@capstan-0-1f...".
std::string to_string(const Endpoint& endpoint);

/// Reads "host:port" or "[address]:port". Throws InvalidArgument that names `source`, the
/// variable or option which `text` comes from.
TcpEndpoint parse_endpoint(std::string_view text, std::string_view source);

/// One address that an endpoint resolves to.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  bool is_loopback() const;
  bool is_wildcard() const;
  /// The numeric endpoint.
  Endpoint endpoint() const;
};

/// All addresses of an endpoint, at least one. Throws SystemError if the name is unknown.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

/// A non-blocking listening socket on the first address that can be bound. Throws SystemError
/// naming the address and what to do: another process has it, it is not this host's, it needs
/// privileges.
FileDescriptor listen_on(const Endpoint& endpoint);

/// The address that a socket is bound to.
SocketAddress local_address(const FileDescriptor& socket);

/// The user that made the socket at the other end of a Unix socket connection.
uid_t peer_uid(const FileDescriptor& socket);

/// Connects a non-blocking socket within `deadline`. On failure the descriptor is empty and
/// `error` an errno value, ETIMEDOUT if the deadline passed.
struct Connected {
  FileDescriptor socket;
  int error = 0;
};
Connected connect_to(const SocketAddress& address, Deadline deadline);

/// Settings of a connected socket, at both ends: no delay for small messages, and probes that
/// find out within about a minute and a half that the other host is gone.
void tune(const FileDescriptor& socket, int family);

/// Waits for poll(2) `events`. False if the deadline passes first.
bool wait_for(const FileDescriptor& socket, short events, Deadline deadline);

}  // namespace capstan
