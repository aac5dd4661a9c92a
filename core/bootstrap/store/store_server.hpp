// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/platform/net/secret.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan {

class ServerLoop;

/// Serves a store from a thread of its own. Clients (StoreClient) must prove that they know
/// `secret`; on an abstract Unix socket they must be of the same user, too, unless any are let in.
/// A client that sends anything else than the protocol, stays silent during the handshake or stops
/// in the middle of a message is disconnected with a warning in the log. Memory is bounded: one
/// message per connection, 128 bytes before the client has proved itself, and 256 MiB of values.
/// Clients that have not proved themselves yet have a limit of their own; the oldest of too many is
/// disconnected, and tries again if it is a rank.
///
/// All functions may be called from any thread.
class StoreServer {
 public:
  struct Settings {
    /// Where another user has taken the name of an abstract socket, random text is appended to it.
    /// Clients find it by its begin.
    SocketEndpoint endpoint = TcpEndpoint{};
    Secret secret;
    /// On an abstract socket, too: the secret alone decides, as it is for nobody to guess.
    bool any_user = false;
    /// Serve every scope (communicator) that clients ask for, as a launcher does. Otherwise only
    /// those opened with open_scope(), and the listener closes by itself when all ranks of all
    /// open scopes have joined.
    bool any_scope = true;
    std::size_t max_connections = 4096;
    /// Connections without a proof; fewer where the process may have few descriptors.
    std::size_t max_strangers = 256;
    std::chrono::milliseconds handshake_timeout{5000};  ///< from accept to the proof
    std::chrono::milliseconds transfer_timeout{10000};  ///< for one message, either way
  };

  /// Throws SystemError if the endpoint cannot be listened on; says why and what to do.
  explicit StoreServer(Settings settings);
  /// stop().
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// The numeric address and the actual port.
  const SocketEndpoint& endpoint() const { return endpoint_; }

  /// Lets the ranks of one more communicator in. False if the listener is closed already.
  bool open_scope(const std::string& name);
  /// Forgets a scope: clients that wait in it get an error, all others in it are disconnected.
  void close_scope(const std::string& name);
  /// Accepts no more connections. Existing ones continue.
  void close_listener();
  bool listening() const;
  /// Every rank of every open scope has joined, and all have left again.
  bool finished() const;
  /// Answers waiting clients with an error, closes everything and ends the thread.
  void stop();

 private:
  SocketEndpoint endpoint_;
  std::unique_ptr<ServerLoop> loop_;
  std::mutex joining_;
  std::jthread thread_;
  pid_t owner_;
};

}  // namespace capstan
