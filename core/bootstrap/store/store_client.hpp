// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/bootstrap/store/store.hpp"
#include "core/bootstrap/store/wire.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/secret.hpp"
#include "core/platform/net/socket.hpp"

namespace capstan {

/// A rank of this number is connected to the store already.
class RankTaken : public BootstrapError {
 public:
  using BootstrapError::BootstrapError;
};

/// A store that lives in a StoreServer, seen by one rank. One thread at a time may use it.
///
/// A call that gets no answer ends the connection; every later call then throws BootstrapError,
/// too.
class StoreClient final : public JobStore {
 public:
  struct Settings {
    SocketEndpoint endpoint;
    Secret secret;
    /// On an abstract socket, too: the secret alone decides.
    bool any_user = false;
    /// The communicator; clients of different scopes share nothing. At most 64 bytes.
    std::string scope = {};
    /// The rank of this client; -1 for a client that is no rank.
    int rank = -1;
    int size = 0;
    /// The server of the store, as errors name it.
    std::string served_by = "the process that hosts the store";
    /// Some ranks were started by another process than this one, on this host or another. Errors
    /// then tell of addresses that only one host reaches.
    bool ranks_come_from_elsewhere = false;
    /// The most time for an answer to put() and try_get(), and to get() beyond its own deadline. A
    /// second after the deadline of the join no answer is waited for any more.
    std::chrono::milliseconds answer_timeout{10000};
    /// Called between attempts to connect. Throws where there is no hope any more.
    std::function<void()> look{};
  };

  /// Connects and proves the secret both ways, trying again until `deadline` while the server may
  /// still come up (nothing listens, the host does not answer, the scope is not open yet).
  /// Throws BootstrapError that says which of these it was, or at once if it is final: the secret
  /// is wrong, the rank is taken, something else than a Capstan store listens there.
  StoreClient(Settings settings, Deadline deadline);

  void put(std::string_view key, std::span<const std::byte> value) override;
  std::vector<std::byte> get(std::string_view key, Deadline deadline) override;
  std::optional<std::vector<std::byte>> try_get(std::string_view key) override;
  const Secret& secret() const override { return settings_.secret; }

 private:
  void connect(Deadline deadline);
  void try_connect(const SocketAddress& address, Deadline deadline);
  std::string explain(int error, const SocketAddress& address) const;
  void check_owner() const;
  void shake_hands(Deadline deadline);
  [[noreturn]] void refused(const wire::Refusal& refusal) const;

  Deadline answer_deadline() const;
  wire::StoreMessage ask(const std::string& call, const wire::StoreMessage& request,
                         Deadline deadline);
  void send(const wire::StoreMessage& message, Deadline deadline);
  wire::StoreMessage receive(Deadline deadline);
  [[noreturn]] void failed(const std::string& call, const std::string& what,
                           ErrorCode code = ErrorCode::bootstrap_failed) const;
  std::string failure_text(const std::string& call, const std::string& what) const;
  [[noreturn]] void unexpected(const std::string& call);
  std::string self() const;
  std::string caution() const;

  Settings settings_;
  const Deadline deadline_;  // of the join
  bool is_local_ = false;    // only this host reaches the address
  FileDescriptor socket_;
  wire::Conversation conversation_{wire::max_payload};
};

}  // namespace capstan
