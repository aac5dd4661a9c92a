#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/net/file_descriptor.hpp"
#include "transports/tcp/complaints.hpp"
#include "transports/tcp/poller.hpp"
#include "transports/tcp/tcp_address.hpp"

namespace capstan::tcp {

/// What has become of a peer: a connection, or the reason why there can be none.
struct Outcome {
  Rank peer;
  FileDescriptor socket;
  std::string address;  // the other end's
  std::string failure;  // when there is no socket
};

/// What those who accept connections and those who open them have in common.
struct Meeting {
  Rank self;
  int ranks = 0;
  Bytes segment;
  std::chrono::milliseconds peer_timeout{};
  std::string congestion_control{};
  std::chrono::milliseconds connect_timeout{};
  std::chrono::milliseconds handshake_timeout{};
  TcpAddress own;
  std::vector<HostAddress> local;
  Poller& poller;

  /// By rank; empty: is never met.
  std::vector<std::optional<TcpAddress>> peers{};
  /// By rank: connected, or given up.
  std::vector<bool> settled{};
  /// In the order in which they came about.
  std::vector<Outcome> outcomes{};
  Complaints complaints{self};
  /// When something may be due.
  Deadline alarm = Deadline::never();

  static std::size_t index(Rank peer) { return static_cast<std::size_t>(peer.value()); }
  const std::optional<TcpAddress>& address_of(Rank peer) const { return peers[index(peer)]; }
  bool is_settled(Rank peer) const { return settled[index(peer)]; }
  /// Whether this rank chooses among several connections.
  bool leads(Rank peer) const { return self < peer; }

  void settle(Outcome outcome) {
    settled[index(outcome.peer)] = true;
    outcomes.push_back(std::move(outcome));
  }
  void wake_at(Deadline when) { alarm = alarm.clamp(when); }
};

/// The kinds of the poller's tags; ids are counted within each.
enum Kind : std::uint32_t { listener, guest, attempt, connection };

}  // namespace capstan::tcp
