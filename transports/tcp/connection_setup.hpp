// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/poller.hpp"
#include "core/platform/net/rate_limited_warnings.hpp"
#include "transports/tcp/handshake.hpp"
#include "transports/tcp/record.hpp"
#include "transports/tcp/tcp_address.hpp"

namespace capstan::tcp {

/// The result of connecting to a peer: a socket, or the reason why there is none.
struct Outcome {
  Rank peer;
  FileDescriptor socket;
  std::string address;  // of the other end
  std::string failure;  // the reason when there is no socket
  std::optional<RecordSeals> seals{};
};

/// The state that Acceptor and Opener share: options, addresses and results.
struct ConnectionSetup {
  Rank self;
  int ranks = 0;
  Bytes segment;
  std::chrono::milliseconds peer_timeout{};
  std::string congestion_control{};
  std::chrono::milliseconds connect_timeout{};
  std::chrono::milliseconds handshake_timeout{};
  JobKey key;
  std::optional<RecordSeal::Mode> seal{};
  TcpAddress own;
  std::vector<HostAddress> local;
  Poller& poller;

  /// By rank; empty: there is no connection to this peer.
  std::vector<std::optional<TcpAddress>> peers{};
  /// By rank: connected, or given up.
  std::vector<bool> settled{};
  /// Results, in the order in which they came about.
  std::vector<Outcome> outcomes{};
  RateLimitedWarnings warnings{fmt::format("rank {}: refused a connection with", self.value())};
  /// Connections cannot be accepted, for lack of descriptors or memory.
  struct Shortage {
    Deadline::Clock::time_point since;
    std::string text;
  };
  std::optional<Shortage> shortage{};
  /// Throws SystemError when there has been a shortage for too long, for a rank that waits.
  void require_room_for(Rank peer) const {
    constexpr std::chrono::seconds longest{1};
    if (shortage && shortage->since + longest < Deadline::Clock::now())
      throw SystemError(fmt::format("rank {}: cannot accept a connection of rank {}: {}",
                                    self.value(), peer.value(), shortage->text));
  }
  /// When something may be due.
  Deadline alarm = Deadline::never();

  static std::size_t index(Rank peer) { return static_cast<std::size_t>(peer.value()); }
  const std::optional<TcpAddress>& address_of(Rank peer) const { return peers[index(peer)]; }
  /// The secret that both ends of a connection from `initiator` to `acceptor` prove to know. Ends
  /// that do not seal records in the same way have different secrets.
  Secret secret_between(Rank initiator, Rank acceptor) const {
    const Secret secret = secret_of(key, end_of(initiator), end_of(acceptor));
    return seal ? secret.child("capstan tcp records v1", std::as_bytes(std::span{&*seal, 1}))
                : secret;
  }
  /// The seals of a new connection, where there are any.
  std::optional<RecordSeals> seals_of(const Secret& out, const Secret& in) const {
    if (!seal) return std::nullopt;
    return RecordSeals{RecordSeal{out, *seal}, RecordSeal{in, *seal}};
  }
  JobKey::End end_of(Rank rank) const {
    return {rank.value(), rank == self ? own.id : address_of(rank)->id};
  }
  bool is_settled(Rank peer) const { return settled[index(peer)]; }
  /// Whether this rank, and not `peer`, chooses which of several connections between them is used.
  bool leads(Rank peer) const { return self < peer; }

  void settle(Outcome outcome) {
    settled[index(outcome.peer)] = true;
    outcomes.push_back(std::move(outcome));
  }
  void wake_at(Deadline when) { alarm = alarm.clamp(when); }
};

/// The kinds of the poller's tags. Each kind counts its own ids.
enum Kind : std::uint32_t { listener, guest, attempt, connection };

}  // namespace capstan::tcp
