// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/own_process.hpp"

namespace capstan::shm {

// Unix sockets that keep message boundaries (SOCK_SEQPACKET), never block, are closed on exec, and
// have names in the abstract namespace: nothing in the file system.

/// The process that opened the other end of a connection, as the kernel reports it.
struct Credentials {
  pid_t pid = 0;  // 0: in a pid namespace that is not visible here
  uid_t uid = 0;
};

/// Accepts connections to an abstract name until it is closed or destroyed.
class UnixListener {
 public:
  /// Throws SystemError.
  UnixListener(std::string_view name, int backlog);
  UnixListener(UnixListener&&) = default;
  ~UnixListener() { close(); }

  int fd() const { return socket_.get(); }
  bool valid() const { return socket_.valid(); }
  /// The next waiting connection, or nothing. Throws SystemError when descriptors run out.
  std::optional<FileDescriptor> accept();
  /// Stops listening, even if a forked child still holds a copy of the socket.
  void close();

 private:
  FileDescriptor socket_;
  OwnProcess process_;
};

enum class Attempt { done, later, refused };

struct Connecting {
  Attempt attempt;
  FileDescriptor socket;  // when done
};

/// Connects to `name`. Later: the peer's queue is full. Refused: nobody listens. Throws
/// SystemError.
Connecting connect_to(std::string_view name);

Credentials credentials_of_peer(int socket);

/// Sends one message with copies of `descriptors`, at most three. Later: a queue is full; refused:
/// the peer has closed. Throws SystemError.
Attempt send_message(int socket, std::span<const std::byte> message,
                     std::span<const int> descriptors);

/// A received message. A message that is longer than the buffer has `length` 0.
struct Received {
  std::size_t length = 0;
  bool closed = false;
  std::vector<FileDescriptor> descriptors;
  bool lacks_descriptors = false;  ///< this process may have no more (RLIMIT_NOFILE)
};

/// The next message, or nothing if none has arrived. Throws SystemError.
std::optional<Received> receive_message(int socket, std::span<std::byte> buffer);

}  // namespace capstan::shm
