// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transports/tcp/connection_setup.hpp"
#include "transports/tcp/handshake.hpp"

namespace capstan::tcp {

/// Opens connections. Tries all addresses of a peer, each a moment after the one before, until one
/// has answered; earlier attempts continue meanwhile. Once a connection is established, the peer
/// may take long to answer, because it is busy elsewhere: this is no reason to give up.
class Opener {
 public:
  explicit Opener(ConnectionSetup& setup) : setup_(setup) {}

  /// Begins to connect to `peer`, unless an attempt is under way.
  void open(Rank peer);
  void serve(std::uint32_t id);
  void handle_timeouts();
  /// Ends the attempts: the peer is connected, or cannot be.
  void stop(Rank peer);
  bool busy() const { return !openings_.empty(); }
  /// Somebody listens where `peer` does: its process lives.
  bool has_reached(Rank peer) const;
  /// The attempts to reach `peer` and their results, for people to read.
  std::string describe(Rank peer) const;

 private:
  struct Attempt {
    std::uint32_t id;
    Rank peer;
    FileDescriptor socket;
    IpEndpoint endpoint;
    Deadline due;  // for the connection, not for the handshake over it
    bool connected = false;
    handshake::Initiator proofs{};
    HandshakeReader reader{handshake::max_answer};
  };
  struct Opening {
    std::vector<IpEndpoint> endpoints;
    std::size_t next = 0;  // of endpoints
    Deadline next_step = Deadline::never();
    int rounds = 0;
    bool may_retry = false;  // the other end listened, but hung up
    bool crossed = false;    // the peer has chosen a connection that it has opened
    std::string failures{};
  };
  using Attempts = std::map<std::uint32_t, Attempt>;

  void step(Rank peer);
  bool try_next(Rank peer, Opening& opening);
  void retry_or_give_up(Rank peer, Opening& opening);
  bool finish_connecting(Attempt& attempt);
  bool receive(Attempt& attempt);
  bool react(Attempt& attempt, const HandshakeMessage& message);
  bool claim(Attempt& attempt, const Challenge& challenge);
  bool check(Attempt& attempt, const Welcome& welcome);
  bool send(Attempt& attempt, const HandshakeMessage& message);
  bool settle(Attempt& attempt);
  bool fail(const Attempt& attempt, std::string_view reason);
  void drop(Attempts::iterator attempt);
  bool has_attempts(Rank peer) const;
  void schedule(Opening& opening, Deadline when);

  ConnectionSetup& setup_;
  std::map<Rank, Opening> openings_;
  Attempts attempts_;
  std::uint32_t next_id_ = 0;
};

}  // namespace capstan::tcp
