// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/platform/net/listener.hpp"
#include "transports/tcp/connection_setup.hpp"
#include "transports/tcp/handshake.hpp"

namespace capstan::tcp {

/// Accepts connections, and lets a rank in only after it has proved to be the rank that it claims
/// to be. Connections that have not proved this yet (guests) are limited in number, in time and in
/// the bytes that they may send.
class Acceptor {
 public:
  Acceptor(ConnectionSetup& setup, std::vector<FileDescriptor> sockets);

  void start();
  void accept_from_listener(std::uint32_t which);
  void serve(std::uint32_t id);
  void handle_timeouts();
  /// Refuses guests that have proved to be this peer, which is connected by another connection.
  void turn_away(Rank peer);
  bool busy() const { return !guests_.empty(); }

 private:
  struct Guest {
    FileDescriptor socket;
    std::string from;
    Deadline due;
    HandshakeReader reader{handshake::max_payload};
    handshake::Acceptor proofs{};
    std::optional<RecordSeals> seals{};
    std::optional<Rank> peer{};  // proved; its choice of a connection is missing
  };
  using Guests = std::map<std::uint32_t, Guest>;  // the oldest first

  void admit(FileDescriptor socket, std::string from);
  void make_room_for_stranger();
  bool receive(Guest& guest);
  bool react(Guest& guest, const HandshakeMessage& message);
  bool check(Guest& guest, const Claim& claim);
  bool settle(Guest& guest, Rank peer);
  bool send(Guest& guest, const HandshakeMessage& message);
  bool refuse(Guest& guest, RefusalReason reason, std::string_view warning);
  Guests::iterator drop(Guests::iterator guest);

  ConnectionSetup& setup_;
  std::vector<Listener> listeners_;
  Guests guests_;
  std::uint32_t next_id_ = 0;
};

}  // namespace capstan::tcp
