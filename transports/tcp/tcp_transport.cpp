// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/tcp_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <utility>

#include "capstan/error.hpp"
#include "transports/common/requirements.hpp"
#include "transports/tcp/tcp_rank.hpp"
#include "transports/tcp/tcp_socket.hpp"

namespace capstan {
namespace tcp {
namespace {

using namespace std::chrono_literals;

/// Up to this number of connections, trying each costs less than asking the poller which are ready.
// measured: docs/lab-notebook.md#few-connections
constexpr std::size_t few_connections = 8;
/// After this number of calls, progress() serves listeners and handshakes even if it serves the
/// connections without the poller.
constexpr unsigned calls_between_looks = 32;
constexpr std::size_t buffer_bytes = 64 * 1024;

}  // namespace

TcpTransport::TcpTransport(Rank self, int ranks, Bytes segment, const TcpOptions& options,
                           const Borrowed& memory, std::vector<HostAddress> local,
                           Listeners listeners)
    : MirroredTransport(self, ranks, segment, memory),
      options_(options),
      setup_{.self = self,
             .ranks = ranks,
             .segment = segment,
             .peer_timeout = options.peer_timeout,
             .congestion_control = options.congestion_control,
             .connect_timeout = options.connect_timeout,
             .handshake_timeout = options.handshake_timeout,
             .key = options.key,
             .seal = options.seal,
             .own = listeners.address,
             .local = std::move(local),
             .poller = poller_},
      acceptor_(setup_, std::move(listeners.sockets)),
      opener_(setup_),
      peers_(static_cast<std::size_t>(ranks)),
      buffer_(buffer_bytes) {}

// --- Connecting ---

void TcpTransport::connect(std::span<const Address> addresses, Deadline deadline) {
  const int rank = self().value();
  require_connectable(self(), started_, addresses.size(), peers_.size());
  started_ = true;
  setup_.peers.resize(peers_.size());
  setup_.settled.resize(peers_.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Rank peer{static_cast<std::int32_t>(i)};
    if (peer == self() || addresses[i].empty()) continue;
    setup_.peers[i] = TcpAddress::decode(addresses[i]);
    if (!setup_.peers[i]) {
      throw BootstrapError(fmt::format(
          "rank {}: connect: rank {} cannot be met: its address is none of this version's TCP: use "
          "the same release of Capstan on all ranks",
          rank, i));
    }
    make_mirror(peer);
    peers_[i] = std::make_unique<PeerConnection>(peer, mirror(peer), Bytes{segment().size()});
    ++links_;
  }
  acceptor_.start();
  if (!options_.lazy) open_all(deadline);
}

void TcpTransport::open_all(Deadline deadline) {
  for (const auto& peer : peers_) {
    if (peer) opener_.open(peer->rank);
  }
  const auto unreached = [&](const auto& peer) {
    return peer && (!setup_.is_settled(peer->rank) || (!peer->socket.valid() && peer->lost));
  };
  work_until(
      [&] {
        return std::ranges::all_of(peers_,
                                   [&](const auto& p) { return !p || setup_.is_settled(p->rank); });
      },
      deadline);
  std::string missing;
  for (const auto& peer : peers_) {
    if (unreached(peer)) missing += "; " + describe_unreached(*peer, deadline);
  }
  if (missing.empty()) return;
  throw BootstrapError(fmt::format("rank {}: connect: {}", self().value(), missing.substr(2)));
}

std::string TcpTransport::describe_unreached(const PeerConnection& peer, Deadline deadline) const {
  if (peer.lost) return *peer.lost;
  return fmt::format(
      "rank {} ({}) did not connect within {}: is it alive, and does it call connect()?",
      peer.rank.value(), opener_.describe(peer.rank), deadline.budget());
}

void TcpTransport::take_outcomes() {
  while (!setup_.outcomes.empty()) {
    std::vector<Outcome> outcomes = std::exchange(setup_.outcomes, {});
    for (Outcome& outcome : outcomes) {
      opener_.stop(outcome.peer);
      acceptor_.turn_away(outcome.peer);
      PeerConnection& peer = *peers_[index(outcome.peer)];
      outcome.socket.valid() ? begin(peer, std::move(outcome)) : lose(peer, outcome.failure);
    }
  }
}

void TcpTransport::begin(PeerConnection& peer, Outcome outcome) {
  peer.socket = std::move(outcome.socket);
  peer.address = std::move(outcome.address);
  const Poller::Tag tag{connection, static_cast<std::uint32_t>(peer.rank.value())};
  poller_.add(peer.socket.get(), tag, Poller::input);
  connected_.push_back(&peer);
  if (outcome.seals) {
    peer.inbox.unseal(outcome.seals->in);
    peer.outbox.seal(outcome.seals->out);
  }
  peer.outbox.open(peer.socket.get(), poller_, tag);
  serve(peer);
}

// --- Sending ---

void TcpTransport::push(Rank peer, Bytes offset, Bytes length) {
  push_from(peer, offset, segment().data() + offset.value(), length);
}

void TcpTransport::push_from(Rank peer, Bytes offset, const void* from, Bytes length) {
  PeerConnection* to = peers_[index(peer)].get();
  if (!to || length.value() == 0) return;
  to->outbox.push(offset.value(), static_cast<const std::byte*>(from), length.value());
  if (setup_.is_settled(peer)) return;
  opener_.open(peer);
  take_outcomes();
}

void TcpTransport::ring(const Link& link) {
  if (PeerConnection* peer = peers_[index(peer_of(link))].get()) peer->outbox.wake(sleeping_);
}

bool TcpTransport::pushed(Rank peer) const {
  const PeerConnection* to = peers_[index(peer)].get();
  return !to || to->outbox.sent();
}

void TcpTransport::detach_sources(Rank peer) {
  if (PeerConnection* to = peers_[index(peer)].get()) to->outbox.detach();
}

// --- Receiving ---

void TcpTransport::progress() {
  if (connected_.size() <= few_connections) {
    // In descending order, because serve() removes a connection that ends.
    for (std::size_t i = connected_.size(); i-- > 0;) serve(*connected_[i]);
    const bool often_enough = ++calls_ % calls_between_looks != 0;
    if (often_enough && !events_due_ && !awaits_guests() && !opener_.busy()) return;
  }
  handle_events();
}

void TcpTransport::handle_events() {
  events_due_ = false;
  for (const Poller::Event& event : poller_.wait(0)) dispatch(event);
  take_outcomes();
  if (setup_.alarm.expired()) handle_timeouts();
  if (sleeping_.load(std::memory_order_relaxed)) poller_.alarm(setup_.alarm);
}

void TcpTransport::handle_timeouts() {
  setup_.alarm = Deadline::never();
  opener_.handle_timeouts();
  acceptor_.handle_timeouts();
  take_outcomes();
}

void TcpTransport::dispatch(const Poller::Event& event) {
  switch (event.tag.kind) {
    case listener:
      return acceptor_.accept_from_listener(event.tag.id);
    case guest:
      return acceptor_.serve(event.tag.id);
    case attempt:
      return opener_.serve(event.tag.id);
    default:
      if (connected_.size() <= few_connections) return;  // progress() serves all connections
      if (PeerConnection& peer = *peers_[event.tag.id]; peer.socket.valid()) serve(peer);
  }
}

void TcpTransport::serve(PeerConnection& peer) {
  peer.outbox.flush(sleeping_);
  try {
    const Inbox::State state = peer.inbox.receive(peer.socket.get(), buffer_);
    if (state != Inbox::State::open) lose(peer, peer.describe_end(state, errno));
  } catch (const MalformedMessage& error) {
    setup_.warnings.warn(peer.address, error.what());
    lose(peer, fmt::format("connection to rank {} at {} was dropped: it sent {}", peer.rank.value(),
                           peer.address, error.what()));
  }
}

// --- Sleeping ---

void TcpTransport::prepare_to_sleep() {
  // Set before the interests are synchronised: a thread that fills a socket after that sees the
  // flag and tells the poller itself.
  sleeping_.store(true);
  for (PeerConnection* peer : connected_) peer->outbox.sync_interest();
  poller_.alarm(setup_.alarm);
  events_due_ = true;
}

void TcpTransport::sleep(std::chrono::nanoseconds at_most) {
  const auto time = std::chrono::ceil<std::chrono::milliseconds>(std::max(at_most, 0ns));
  poller_.alarm(setup_.alarm);
  poller_.wait(static_cast<int>(std::min<std::int64_t>(time.count(), INT_MAX)));
  cancel_sleep();
}

void TcpTransport::cancel_sleep() {
  sleeping_.store(false);
  events_due_ = true;
}

}  // namespace tcp

std::unique_ptr<Transport> make_tcp_transport(Rank self, int ranks, Bytes segment,
                                              const TcpOptions& options, const Borrowed& memory) {
  require_rank(self, self, static_cast<std::size_t>(std::max(ranks, 0)));
  TcpOptions chosen = options;
  chosen.congestion_control = tcp::choose_congestion_control(options.congestion_control);
  std::vector<HostAddress> local = choose_addresses(options.interface, host_addresses());
  tcp::Listeners listeners = tcp::listen_on_all(local, chosen.congestion_control);
  return std::make_unique<tcp::TcpTransport>(self, ranks, segment, chosen, memory, std::move(local),
                                             std::move(listeners));
}

}  // namespace capstan
