// SPDX-License-Identifier: Apache-2.0

// How a rank loses its peers, and how it leaves them.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transports/tcp/tcp_rank.hpp"
#include "transports/tcp/tcp_socket.hpp"

namespace capstan::tcp {

void TcpTransport::lose(PeerConnection& peer, std::string why) {
  peer.lost = std::move(why);
  peer.outbox.close();
  std::erase(connected_, &peer);
  if (!peer.socket.valid()) return;
  poller_.remove(peer.socket.get());
  peer.socket.reset();
}

/// Opens a connection, because only the end of a connection tells that the peer has departed.
bool TcpTransport::watch(Rank peer) {
  if (!peers_[index(peer)] || setup_.is_settled(peer)) return true;
  setup_.require_room_for(peer);
  opener_.open(peer);
  take_outcomes();
  return setup_.is_settled(peer) || opener_.has_reached(peer);
}

/// A goodbye that is sealed shows only when what came before it has been received.
void TcpTransport::look_for_end(PeerConnection& peer) {
  if (peer.inbox.is_sealed()) return serve(peer);
  const Inbox::State state = peer.inbox.peek(peer.socket.get());
  if (state != Inbox::State::open) lose(peer, peer.describe_end(state, errno));
}

std::optional<std::string> TcpTransport::departed(Rank peer) {
  PeerConnection* which = peers_[index(peer)].get();
  if (!which) return std::nullopt;
  if (which->lost || !which->socket.valid()) return which->lost;
  look_for_end(*which);
  if (!which->lost && which->has_stalled(options_.peer_timeout))
    lose(*which, which->describe_end(Inbox::State::broken, ETIMEDOUT));
  return which->lost;
}

TcpTransport::~TcpTransport() {
  if (!process_.is_this()) return;  // a forked child's copy: the rank is still there
  try {
    leave();
  } catch (const std::exception& error) {
    setup_.warnings.warn("all peers", error.what());
  }
}

/// Sends the rest and says goodbye. Closing a socket while the peer still sends would drop data
/// that the peer's host has not acknowledged, so this function waits for the acknowledgement.
void TcpTransport::leave() {
  const auto all_sent = [&] {
    return std::ranges::all_of(peers_, [](const auto& p) { return !p || p->outbox.sent(); });
  };
  finish(all_sent);
  for (PeerConnection* peer : connected_) peer->outbox.say_goodbye();
  finish(all_sent);
  for (const PeerConnection* peer : connected_) ::shutdown(peer->socket.get(), SHUT_WR);
  finish([&] { return unacknowledged() == 0; });
}

/// Bytes that the peers' hosts have not acknowledged yet.
std::uint64_t TcpTransport::unacknowledged() const {
  std::uint64_t bytes = 0;
  for (const PeerConnection* peer : connected_) bytes += unsent(peer->socket.get());
  return bytes;
}

/// Makes progress until the condition is met, or peers' hosts acknowledge nothing, now or earlier.
template <class Condition>
void TcpTransport::finish(Condition condition) {
  const auto taken = [&] {
    std::uint64_t bytes = 0;
    for (const PeerConnection* peer : connected_) bytes += peer->outbox.sent_bytes();
    return bytes - unacknowledged();
  };
  while (answered_ && !condition()) {
    const std::uint64_t before = taken();
    work_until([&] { return condition() || taken() != before; }, Deadline::in(linger_));
    answered_ = condition() || taken() != before;
  }
}

}  // namespace capstan::tcp
