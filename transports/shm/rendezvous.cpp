// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "core/platform/net/listener.hpp"
#include "core/platform/net/socket.hpp"
#include "core/platform/net/system_call.hpp"
#include "transports/shm/memfd.hpp"
#include "transports/shm/sleeper.hpp"

namespace capstan::shm {
namespace {

using namespace std::chrono_literals;

constexpr auto retry_interval = 2ms;   // when a queue was full
constexpr auto between_looks = 100ms;  // at the names of those that are missing
constexpr auto grace = 1000;  // ms between the end of a process's socket and that of its pidfd
constexpr std::size_t spare_newcomers = 64;  // beyond one per rank

bool has_ended(const Pidfd& watch) {
  return watch && is_readable(watch->get());
}

}  // namespace

Rendezvous::Rendezvous(Rank self, std::vector<ShmAddress> world, Handover own,
                       UnixListener listener, bool use_pidfd)
    : self_(self),
      own_(own),
      listener_(std::move(listener)),
      use_pidfd_(use_pidfd),
      peers_(world.size()),
      missing_(world.size() - 1),
      next_look_(Deadline::in(between_looks)) {
  for (std::size_t rank = 0; rank < world.size(); ++rank) peers_[rank].address = world[rank];
  peers_[this->self()].done = true;
}

std::vector<Partner> Rendezvous::run(Deadline deadline) {
  watch_peers();
  while (true) {
    const bool retry_soon = advance();
    if (missing_ == 0) break;
    if (deadline.expired()) give_up_at_deadline();
    if (next_look_.expired()) look_who_listens();
    wait(deadline, retry_soon);
  }
  listener_.close();
  std::vector<Partner> partners;
  for (Peer& peer : peers_) partners.push_back(std::move(peer.partner));
  return partners;
}

/// Whether the process has ended. Its sockets close before its pidfd shows that: waits for it. The
/// number of a process elsewhere may be nobody's here.
bool Rendezvous::has_died(const Peer& peer) const {
  if (!peer.watch)
    return peer.address.shares_pids_with(peers_[self()].address) && is_gone(peer.address.pid);
  pollfd death{.fd = peer.watch->get(), .events = POLLIN, .revents = 0};
  return ::poll(&death, 1, grace) > 0;
}

void Rendezvous::watch_peers() {
  if (!use_pidfd_) return;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.done || !peer.address.shares_pids_with(peers_[self()].address)) continue;
    peer.watch = open_pidfd(peer.address.pid);
    if (!peer.watch && errno == ESRCH) fail(rank, "has died");
  }
}

/// Does what needs no event. Returns whether something has to be tried again soon.
bool Rendezvous::advance() {
  bool retry_soon = false;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].done) continue;
    if (rank < self() && !peers_[rank].conversation) retry_soon |= reach_out(rank);
    if (peers_[rank].conversation) retry_soon |= flush(rank);
  }
  return retry_soon;
}

bool Rendezvous::reach_out(std::size_t rank) {
  Connecting connecting = connect_to(peers_[rank].address.socket());
  if (connecting.attempt == Attempt::refused) fail_as_deaf(rank);
  if (connecting.attempt == Attempt::done) greet(rank, std::move(connecting.socket));
  return connecting.attempt == Attempt::later;
}

void Rendezvous::greet(std::size_t rank, FileDescriptor socket) {
  Peer& peer = peers_[rank];
  peer.conversation.emplace(std::move(socket), use_pidfd_);
  const Credentials found = peer.conversation->credentials();
  if (!peers_[self()].address.recognises(peer.address, found)) {
    fail(rank, fmt::format("is not trusted: its socket belongs to process {} of user {}, but its "
                           "address says user {}",
                           found.pid, found.uid, peer.address.uid));
  }
  peer.conversation->queue({.rank = self_.value(), .token = peers_[self()].address.token}, {});
}

bool Rendezvous::flush(std::size_t rank) {
  const Attempt attempt = peers_[rank].conversation->flush();
  // A refusal shows as the end of the conversation, after the peer's last messages.
  if (attempt == Attempt::done && peers_[rank].conversation->complete()) finish(rank);
  return attempt == Attempt::later;
}

/// A rank that gives up before it has connected to this one, for whatever reason, tells nobody, and
/// its process may live: but its name is gone from the kernel's table. Whoever has connected gets
/// an answer first, and so does not finish before this rank knows of it.
void Rendezvous::look_who_listens() {
  next_look_ = Deadline::in(between_looks);
  const std::vector<std::string> names = abstract_names(socket_prefix);
  const auto listens = [&](std::size_t rank) {
    return std::ranges::binary_search(names, peers_[rank].address.socket());
  };
  admit_newcomers();
  if (!newcomers_.empty() || !listens(self())) return;
  for (std::size_t rank = self() + 1; rank < peers_.size(); ++rank)
    if (!peers_[rank].done && !peers_[rank].conversation && !listens(rank)) fail_as_deaf(rank);
}

void Rendezvous::wait(Deadline deadline, bool retry_soon) {
  collect_events();
  Deadline::Clock::duration longest = next_look_.remaining();
  if (retry_soon) longest = retry_interval;
  const auto timeout =
      std::chrono::ceil<std::chrono::milliseconds>(std::min(deadline.remaining(), longest));
  const int ready = ::poll(polled_.data(), polled_.size(), static_cast<int>(timeout.count()));
  if (ready < 0 && errno != EINTR) throw_errno("poll");
  for (std::size_t i = 0; ready > 0 && i < events_.size(); ++i) {
    if (polled_[i].revents != 0) handle(events_[i]);
  }
  std::erase_if(newcomers_, [](const auto& newcomer) { return !newcomer; });
}

void Rendezvous::add_event(int fd, Source source, std::size_t index) {
  polled_.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  events_.push_back({source, index});
}

void Rendezvous::collect_events() {
  polled_.clear();
  events_.clear();
  for (std::size_t i = 0; i < newcomers_.size(); ++i) {
    add_event(newcomers_[i]->fd(), Source::newcomer, i);
  }
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    if (peer.done) continue;
    if (peer.conversation) add_event(peer.conversation->fd(), Source::conversation, rank);
    if (peer.watch) add_event(peer.watch->get(), Source::death, rank);
  }
  add_event(listener_.fd(), Source::listener, 0);  // last: it moves newcomers_
}

void Rendezvous::handle(const Event& event) {
  switch (event.source) {
    case Source::listener:
      return admit_newcomers();
    case Source::newcomer:
      return on_newcomer(newcomers_[event.index]);
    case Source::conversation:
      return on_message(event.index);
    case Source::death:
      return on_death(event.index);
  }
}

void Rendezvous::admit_newcomers() {
  while (std::optional<FileDescriptor> socket = listener_.accept()) {
    Conversation newcomer{std::move(*socket), use_pidfd_};
    if (!expects(newcomer.credentials())) {
      refuse(newcomer, "no rank that is still missing has this process and user");
      continue;
    }
    make_room_for_newcomer();
    newcomers_.emplace_back(std::move(newcomer));
  }
}

void Rendezvous::make_room_for_newcomer() {
  if (newcomers_.size() < most_strangers(peers_.size() + spare_newcomers)) return;
  const auto oldest = newcomers_.begin();
  if (*oldest) refuse(**oldest, "others came and it has not said which rank it is");
  newcomers_.erase(oldest);
}

bool Rendezvous::expects(Credentials found) const {
  return std::any_of(peers_.begin() + self_.value(), peers_.end(), [&](const Peer& peer) {
    return !peer.done && peers_[self()].address.recognises(peer.address, found);
  });
}

void Rendezvous::on_newcomer(std::optional<Conversation>& newcomer) {
  std::optional<Conversation::Incoming> incoming = newcomer->receive();
  if (!incoming) return;
  if (!incoming->introduction || !incoming->descriptors.empty()) {
    refuse(*newcomer, incoming->closed ? "it closed without a word" : "it sent something unknown");
  } else if (const auto rank = identify(*newcomer, *incoming->introduction)) {
    Peer& peer = peers_[*rank];
    peer.conversation = std::move(newcomer);
    peer.conversation->queue({.rank = self_.value(),
                              .membarrier = own_.membarrier,
                              .token = peers_[self()].address.token},
                             own_);
  }
  newcomer.reset();
}

std::optional<std::size_t> Rendezvous::identify(const Conversation& newcomer,
                                                const Introduction& greeting) {
  const auto rank = static_cast<std::size_t>(greeting.rank);
  if (greeting.rank <= self_.value() || rank >= peers_.size()) {
    return refuse(newcomer, "it claims a rank that does not connect here"), std::nullopt;
  }
  const Peer& peer = peers_[rank];
  if (greeting.token != peer.address.token ||
      !peers_[self()].address.recognises(peer.address, newcomer.credentials())) {
    return refuse(newcomer, fmt::format("it is not rank {}", rank)), std::nullopt;
  }
  if (peer.done || peer.conversation) {
    return refuse(newcomer, fmt::format("rank {} has come before", rank)), std::nullopt;
  }
  return rank;
}

void Rendezvous::refuse(const Conversation& newcomer, std::string_view reason) {
  warnings_.warn(
      fmt::format("process {} of user {}", newcomer.credentials().pid, newcomer.credentials().uid),
      reason);
}

void Rendezvous::on_message(std::size_t rank) {
  Peer& peer = peers_[rank];
  std::optional<Conversation::Incoming> incoming = peer.conversation->receive();
  if (!incoming) return;
  if (!incoming->closed) return take_offer(rank, std::move(*incoming));

  fail(rank, has_died(peer) ? "has died" : "gave up during start-up: see its own error");
}

void Rendezvous::take_offer(std::size_t rank, Conversation::Incoming incoming) {
  Peer& peer = peers_[rank];
  if (incoming.lacks_descriptors) {
    errno = EMFILE;
    throw_errno("receive a peer's descriptors");
  }
  const std::string reason = reason_to_distrust(peer, rank, incoming);
  if (!reason.empty()) fail(rank, "is not trusted: " + reason);

  peer.partner.segment = std::move(incoming.descriptors[0]);
  peer.partner.header = std::move(incoming.descriptors[1]);
  if (incoming.descriptors.size() > 2) peer.partner.bell = std::move(incoming.descriptors[2]);
  peer.partner.membarrier = incoming.introduction->membarrier != 0;
  peer.conversation->accept_offer(*incoming.introduction);
  if (rank < self()) {
    peer.conversation->queue({.rank = self_.value(),
                              .membarrier = own_.membarrier,
                              .token = peers_[self()].address.token},
                             own_);
  }
  flush(rank);
}

std::string Rendezvous::reason_to_distrust(const Peer& peer, std::size_t rank,
                                           const Conversation::Incoming& incoming) const {
  const auto& offer = incoming.introduction;
  const std::size_t count = incoming.descriptors.size();
  if (!offer || count < 2 || count > 3) return "it sent something unknown";
  if (static_cast<std::size_t>(offer->rank) != rank || offer->token != peer.address.token) {
    return "it lacks the token of its address";
  }
  const auto& fds = incoming.descriptors;
  if (auto flaw = unsafe_to_map(fds[0].get(), Bytes{peer.address.segment})) return *flaw;
  if (auto flaw = unsafe_to_map(fds[1].get(), Bytes{1})) return *flaw;
  if (count > 2)
    if (auto flaw = unsafe_to_ring(fds[2].get())) return *flaw;
  return {};
}

void Rendezvous::on_death(std::size_t rank) {
  // Its last message may have arrived before it ended.
  if (!peers_[rank].done && peers_[rank].conversation) on_message(rank);
  if (!peers_[rank].done) fail(rank, "has died");
}

void Rendezvous::finish(std::size_t rank) {
  Peer& peer = peers_[rank];
  peer.partner.liveness = std::move(*peer.conversation).into_liveness();
  peer.conversation.reset();
  peer.watch.reset();
  peer.done = true;
  --missing_;
}

std::string Rendezvous::who_is(std::size_t rank) const {
  return fmt::format("rank {} (process {})", rank, peers_[rank].address.pid);
}

/// Its name is gone from the kernel's table.
void Rendezvous::fail_as_deaf(std::size_t rank) {
  fail(rank, has_died(peers_[rank])
                 ? "has died"
                 : "no longer listens: its start-up failed, or its transport was destroyed");
}

/// Throws; names `rank` and all other missing ranks that are known to have died.
void Rendezvous::fail(std::size_t rank, std::string reason) {
  std::string message = fmt::format("rank {}: connect: {} {}", self_.value(), who_is(rank), reason);
  for (std::size_t other = 0; other < peers_.size(); ++other) {
    if (other == rank || peers_[other].done || !has_ended(peers_[other].watch)) continue;
    message += fmt::format("; {} has died", who_is(other));
  }
  throw BootstrapError(message + ". Find out why, then start all ranks again");
}

void Rendezvous::give_up_at_deadline() {
  std::string message = fmt::format(
      "rank {}: connect: {} of {} peers did not come before the "
      "deadline",
      self_.value(), missing_, peers_.size() - 1);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].done) continue;
    message += fmt::format("; {} {}", who_is(rank), state_of(peers_[rank]));
  }
  throw BootstrapError(message + ". Start every rank, or allow more time for start-up");
}

std::string Rendezvous::state_of(const Peer& peer) const {
  const bool visible = peer.address.shares_pids_with(peers_[self()].address);
  if (visible && (has_ended(peer.watch) || is_gone(peer.address.pid))) return "has died";
  const std::string alive = visible ? "is alive but " : "";
  return alive + (peer.conversation ? "does not answer" : "has not connected");
}

}  // namespace capstan::shm
