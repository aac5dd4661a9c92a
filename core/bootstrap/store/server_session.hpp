// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/bootstrap/store/scope_table.hpp"
#include "core/bootstrap/store/wire.hpp"

namespace capstan {

/// The server's side of the protocol on one connection, without any input or output:
///
///   greeting --Hello--> proving --Join--> serving <--answer / Get--> waiting
class ServerSession {
 public:
  /// The consequences of a message. A Refusal is the last message of a connection.
  struct Reaction {
    std::optional<wire::StoreMessage> reply;
    std::string warning = {};  ///< worth a warning in the log if not empty
    bool stored = false;       ///< a value has changed, which may end the waits of other clients
    std::optional<handshake::SessionKeys> keys = {};  ///< seal what follows the reply
  };

  ServerSession(ScopeTable& scopes, const Secret& secret) : scopes_(scopes), secret_(secret) {}
  ~ServerSession();
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  Reaction on(const wire::StoreMessage& message);

  bool authenticated() const { return scope_ != nullptr; }
  bool waiting() const { return waiting_for_.has_value(); }
  /// The time at which the wait of a Get ends.
  Deadline wait_deadline() const { return wait_deadline_; }
  const Scope* scope() const { return scope_; }

  /// Ends the wait if the store has its key, and returns the reply.
  std::optional<wire::StoreMessage> answer();
  /// Ends the wait for want of time, or because the server stops.
  wire::StoreMessage give_up(wire::FailureReason reason);

 private:
  Reaction on_join(const wire::Join& join);
  Reaction on_put(const wire::Put& put);
  Reaction on_get(const wire::Get& get);
  Reaction on_try_get(const wire::TryGet& get) const;
  std::optional<wire::Refusal> objection(const wire::Membership& member, Scope* scope) const;

  ScopeTable& scopes_;
  const Secret& secret_;
  handshake::Acceptor proofs_;
  Scope* scope_ = nullptr;
  int rank_ = -1;
  std::optional<std::string> waiting_for_;
  Deadline wait_deadline_ = Deadline::never();
};

}  // namespace capstan
