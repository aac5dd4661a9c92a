// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "capstan/deadline.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "transports/tcp/inbox.hpp"
#include "transports/tcp/outbox.hpp"
#include "transports/tcp/tcp_socket.hpp"

namespace capstan::tcp {

/// The connection to one peer, and the data that passes over it.
struct PeerConnection {
  PeerConnection(Rank its_rank, std::byte* mirror, Bytes segment)
      : rank(its_rank), inbox(mirror, segment) {}

  /// "connection to rank 3 at 10.0.0.3:4711 was reset: ...", after its inbox has said `state`, with
  /// `error` when that is `broken`.
  std::string describe_end(Inbox::State state, int error) const;

  /// Whether the peer's host has acknowledged no data for all of `timeout`, though data wait for
  /// acknowledgement. The kernel's own limit would be a quarter of an hour. Mostly reads the clock
  /// only.
  bool has_stalled(std::chrono::milliseconds timeout);

  Rank rank;
  Outbox outbox;
  Inbox inbox;
  FileDescriptor socket;
  std::string address;
  std::optional<std::string> lost;  // the reason why the connection is lost

  Flight flight;  // as of the last look
  Deadline stalled = Deadline::never();
  Deadline next_look = Deadline::in(Deadline::Clock::duration::zero());
};

}  // namespace capstan::tcp
