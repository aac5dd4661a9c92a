// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/bootstrap/store/scope_table.hpp"
#include "core/bootstrap/store/server_session.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "core/bootstrap/store/wire.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/listener.hpp"
#include "core/platform/net/poller.hpp"
#include "core/platform/net/rate_limited_warnings.hpp"
#include "core/platform/net/wakeup.hpp"

namespace capstan {

/// The event loop of a StoreServer: moves bytes between sockets and sessions, and keeps time.
/// Everything it owns is guarded by one lock, which the loop gives up only while it sleeps.
class ServerLoop {
 public:
  ServerLoop(FileDescriptor listener, StoreServer::Settings settings);

  /// Serves until stop() is called.
  void run();
  void stop();

  bool open_scope(const std::string& name);
  void close_scope(const std::string& name);
  void close_listener();
  bool listening() const;
  bool finished() const;

 private:
  /// The phase of a connection decides which events it waits for and how long it may take.
  enum class Phase { handshaking, idle, receiving, waiting, sending, closing, broken };

  struct Connection {
    Connection(FileDescriptor fd, std::string who, ScopeTable& scopes, const Secret& secret)
        : socket(std::move(fd)), peer(std::move(who)), session(scopes, secret) {}

    FileDescriptor socket;
    std::string peer;
    ServerSession session;
    wire::Conversation conversation{wire::max_handshake_payload};
    std::vector<std::byte> output;
    std::size_t sent = 0;
    bool last_words = false;  ///< close once the output has been sent
    Phase phase = Phase::handshaking;
    Deadline due = Deadline::never();
  };

  void serve_once(std::unique_lock<std::mutex>& lock);
  void dispatch(const Poller::Event& event);
  void accept_all();
  void check_user(Accepted accepted);
  void admit(FileDescriptor socket, std::string peer);
  void turn_away(const FileDescriptor& socket);
  void make_room_for_stranger();

  void receive(Connection& c);
  void receive_frame(Connection& c);
  void discard_input(Connection& c);
  void react(Connection& c, ServerSession::Reaction reaction);
  void answer_waiters(const Scope& scope);
  void send(Connection& c, const wire::StoreMessage& message);
  void flush(Connection& c);
  void enter_phase(Connection& c);
  Phase phase_of(const Connection& c) const;
  void set_interest(const Connection& c);
  void say_goodbye(Connection& c, Deadline linger);

  void expire();
  void expire(Connection& c);
  void reap();
  void hang_up(const FileDescriptor& socket);

  const StoreServer::Settings settings_;
  mutable std::mutex mutex_;
  Poller poller_;
  Wakeup wakeup_;
  Listener listener_;
  ScopeTable scopes_;
  std::map<int, std::unique_ptr<Connection>> connections_;  // after scopes_: sessions leave them
  Deadline next_check_ = Deadline::never();
  RateLimitedWarnings warnings_;
  bool stopping_ = false;
};

}  // namespace capstan
