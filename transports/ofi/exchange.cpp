// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/exchange.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <limits>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"

namespace capstan::ofi {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view frame_keys = "capstan ofi frames v2";
constexpr std::size_t spare_receives = 4;  // per peer, for frames outside the window
constexpr std::uint64_t frames_for_all = 4096;
// Bytes that a socket takes at once, however little it has sent so far. On Linux the send buffer of
// a connection begins with ten segments of 1460 bytes, twice.
constexpr std::uint64_t fits_a_socket = 16384;
constexpr std::uint64_t largest_operation = std::uint64_t{1} << 30;
constexpr std::size_t watched_at_once = 16;  // awaited peers at start-up
constexpr auto time_for_cause = 500ms;       // from a failed operation until a death must show

std::unique_ptr<OfiEndpoint> open_endpoint(Rank self, const OfiOptions& options) {
  try {
    return OfiEndpoint::open(survey(options), options);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("rank {}: ofi: {}", self.value(), error.what()));
  }
}

}  // namespace

Exchange::Exchange(Rank self, int ranks, std::span<std::byte> segment, const OfiOptions& options)
    : self_(self),
      key_(options.key),
      segment_(segment),
      endpoint_(open_endpoint(self, options)),
      liveness_listener_(ranks),
      address_(OfiAddress::of_this_process(Bytes{segment.size()},
                                           endpoint_->info().fabric_attr->prov_name,
                                           endpoint_->name(), liveness_listener_.port())),
      rules_(rules_for(options, ranks)),
      pool_(*endpoint_),
      segment_registration_(endpoint_->register_source(segment.data(), Bytes{segment.size()})),
      memory_(*endpoint_, options, rules_.reads),
      peers_(ranks) {
  const std::size_t each = rules_.window + spare_receives;
  receives_wanted_ = std::min<std::size_t>(static_cast<std::size_t>(ranks) * each,
                                           endpoint_->info().rx_attr->size);
  post_receives();
}

Exchange::~Exchange() {
  liveness_listener_.say_goodbye();
  endpoint_->stop();  // before the memory that it uses
}

Rules Exchange::rules_for(const OfiOptions& options, int ranks) const {
  const fi_info& info = endpoint_->info();
  const std::uint64_t order = info.tx_attr->msg_order;
  Rules rules;
  rules.writes = options.pushes != OfiPushes::messages && (info.caps & FI_RMA) != 0;
  rules.copy_all = !rules.writes && (info.caps & FI_TAGGED) == 0;
  rules.send_after_write = (order & FI_ORDER_SAW) != 0;
  rules.write_after_write = (order & FI_ORDER_WAW) != 0;
  rules.window =
      std::clamp<std::uint64_t>(frames_for_all / static_cast<std::uint64_t>(ranks), 2, 32);
  rules.buffered = info.domain_attr->data_progress == FI_PROGRESS_AUTO
                       ? std::numeric_limits<std::uint64_t>::max()
                       : fits_a_socket;
  rules.largest = std::min<std::uint64_t>(info.ep_attr->max_msg_size, largest_operation);
  const Candidate granted = candidate_of(info);
  // Nothing but the end of the endpoint ends a read, and an endpoint that registrations are bound
  // to does not close before them.
  const bool may_close = (info.domain_attr->mr_mode & FI_MR_ENDPOINT) == 0;
  rules.reads = may_close && reads_memory(granted, options);
  rules.card_reads = card_reads(granted);
  return rules;
}

Exchange::Peer& Exchange::linked(Rank rank) const {
  if (Peer* peer = peers_[rank].get()) return *peer;
  throw InvalidArgument(fmt::format("rank {}: there is no link to rank {} over libfabric",
                                    self_.value(), rank.value()));
}

std::string Exchange::who_is(Rank rank) const {
  return fmt::format("rank {} ({})", rank.value(),
                     peers_[rank]->address.process_seen_from(address_));
}

void Exchange::add_peer(Rank rank, const Address& address, std::byte* mirror) {
  const auto distrust = [&](std::string_view reason) {
    throw BootstrapError(
        fmt::format("rank {}: connect: rank {} {}", self_.value(), rank.value(), reason));
  };
  const std::optional<OfiAddress> where = OfiAddress::decode(address);
  if (!where) distrust("has an address that was not made by the ofi transport of this version");
  if (where->segment != address_.segment) {
    distrust(fmt::format("has a segment of {} bytes, this rank one of {}; give all the same",
                         where->segment, address_.segment));
  }
  if (where->provider_name() != address_.provider_name()) {
    distrust(fmt::format("uses the provider {}, this rank {}; name one that all hosts have",
                         where->provider_name(), address_.provider_name()));
  }
  const fi_addr_t to = endpoint_->insert(where->endpoint());
  Registration memory = endpoint_->register_target(mirror, Bytes{segment_.size()}, rules_.writes);
  const JobKey::End here{self_.value(), address_.id}, there{rank.value(), where->id};
  const Sender::Route out{.peer = rank,
                          .address = to,
                          .header = {.sender = self_.value()},
                          .key = key_.between(frame_keys, here, there)};
  const Receiver::Route in{.peer = rank,
                           .address = to,
                           .mirror = mirror,
                           .segment = segment_.size(),
                           .descriptor = memory.descriptor()};
  peers_[rank] = std::make_unique<Peer>(*endpoint_, pool_, rules_, out, in,
                                        key_.between(frame_keys, there, here), *where, address_);
  Peer& peer = *peers_[rank];
  peer.sender.introduce(endpoint_->remote_memory(mirror, memory));
  peer.mirror = std::move(memory);
  mark_busy(rank);
}

bool Exchange::all_met() const {
  return std::ranges::all_of(
      peers_, [](const auto& peer) { return !peer || (peer->met && peer->sender.idle()); });
}

void Exchange::require_reachable(bool too_late) {
  std::string gone;
  std::string missing;
  std::size_t count = 0;
  for (int i = 0; i < peers_.size(); ++i) {
    const Rank rank{i};
    Peer* peer = peers_[rank].get();
    if (!peer || (peer->met && peer->sender.idle()) || ++count > watched_at_once) continue;
    const std::optional<std::string> reason = departure_of(*peer);
    if (reason) gone += fmt::format("; {} {}", who_is(rank), *reason);
    if (too_late) missing += fmt::format("; {} {}", who_is(rank), reason.value_or(state_of(*peer)));
  }
  if (!gone.empty()) {
    throw BootstrapError(
        fmt::format("rank {}: connect over {}{}. Find out why, then start all ranks again",
                    self_.value(), endpoint_->description(), gone));
  }
  if (!too_late) return;
  if (count > watched_at_once) missing += fmt::format("; and {} more", count - watched_at_once);
  throw BootstrapError(fmt::format(
      "rank {}: connect over {}: {} peers did not come before the deadline{}. Start every rank, or "
      "allow more time for start-up",
      self_.value(), endpoint_->description(), count, missing));
}

std::string Exchange::state_of(Peer& peer) {
  if (peer.watch.check() != LivenessWatch::State::alive)
    return "does not answer, and cannot be seen";
  return peer.met ? "is alive but does not take messages" : "is alive but has not connected";
}

void Exchange::push(Rank peer, Bytes offset, Bytes length) {
  Peer& to = linked(peer);
  if (to.gone() || length.value() == 0) return;
  to.sender.push(segment_.data() + offset.value(), offset, length,
                 segment_registration_.descriptor());
  mark_busy(peer);
}

void Exchange::push_from(Rank peer, Bytes offset, const std::byte* from, Bytes length) {
  Peer& to = linked(peer);
  if (to.gone() || length.value() == 0) return;
  to.sender.push_from(from, offset, length,
                      endpoint_->needs_local_registration() ? &memory_.sources() : nullptr);
  mark_busy(peer);
}

void Exchange::release(Rank rank) {
  Peer& peer = linked(rank);
  if (peer.gone()) return;
  peer.sender.release();
  send(peer);  // receives nothing: mirrors change in progress() alone
}

bool Exchange::pushed(Rank rank) const {
  const Peer* peer = peers_[rank].get();
  return !peer || peer->sender.all_sent() || peer->given_up.expired();
}

void Exchange::detach_sources(Rank rank) {
  Peer* peer = peers_[rank].get();
  if (!peer || peer->gone()) return;  // nobody receives what is in flight
  peer->sender.detach();
  mark_busy(rank);
}

void Exchange::mark_busy(Rank rank) {
  if (std::exchange(peers_[rank]->busy, true)) return;
  busy_.push_back(rank);
}

void Exchange::progress() {
  if (ended_) return;
  endpoint_->drain([this](const Completion& completion) { handle(completion); });
  post_receives();
  advance_busy_peers();
}

void Exchange::advance_busy_peers() {
  for (const Rank rank : busy_) {
    peers_[rank]->sender.release();
    advance(*peers_[rank]);
  }
  std::erase_if(busy_, [this](Rank rank) {
    Peer& peer = *peers_[rank];
    peer.busy = (!peer.sender.all_sent() || peer.receiver.landing() || !peer.reader.idle()) &&
                !peer.given_up.expired();
    return !peer.busy;
  });
}

void Exchange::advance(Peer& peer) {
  if (peer.failure) return;
  const long result = peer.receiver.advance();
  if (result != 0) return fail(peer, Libfabric::get().text(result));
  if (peer.receiver.violation()) return fail(peer, *peer.receiver.violation());
  const std::uint64_t applied = peer.receiver.applied();
  if (peer.receiver.answer_due() || peer.sender.owes_acknowledgement(applied)) {
    peer.sender.send_acknowledgement();
  }
  if (peer.receiver.has_left()) {
    peer.sender.abandon();  // keeps the acknowledgement that the peer waits for
    peer.reader.abandon();
    if (peer.given_up.is_never()) peer.given_up = Deadline::in(time_to_give_up);
  }
  send(peer);
  read(peer);
}

void Exchange::send(Peer& peer) {
  const long result = peer.sender.advance(peer.receiver.applied());
  if (result != 0) fail(peer, Libfabric::get().text(result));
}

void Exchange::post_receives() {
  while (receives_posted_ < receives_wanted_) {
    Frame& frame = pool_.take();
    frame.kind = Operation::Kind::receive;
    const long result = endpoint_->receive(frame.data, frame_size, frame.descriptor, frame);
    if (result != 0) {
      pool_.give_back(frame);
      if (result == -FI_EAGAIN) return;
      throw SystemError(fmt::format("rank {}: fi_recv failed on {}: {}", self_.value(),
                                    endpoint_->description(), Libfabric::get().text(result)));
    }
    ++receives_posted_;
  }
}

void Exchange::handle(const Completion& completion) {
  Operation* operation = completion.operation;
  if (!operation) {
    if (!completion.error.empty()) log().debug("ofi: {}", completion.error);
    return;
  }
  if (operation->kind == Operation::Kind::receive) {
    --receives_posted_;
    auto& frame = static_cast<Frame&>(*operation);
    if (completion.error.empty()) return on_message(frame, completion.length);
    log().debug("rank {}: ofi: a receive failed: {}", self_.value(), completion.error);
    return pool_.give_back(frame);
  }
  Peer& peer = *peers_[operation->peer];
  mark_busy(operation->peer);
  if (operation->kind == Operation::Kind::landing) {
    peer.receiver.landed(completion.error.empty());
  } else if (operation->kind == Operation::Kind::read) {
    peer.reader.completed(*operation, completion.error.empty());
  } else {
    peer.sender.completed(*operation);
  }
  if (!completion.error.empty()) fail(peer, completion.error);
}

void Exchange::on_message(Frame& frame, std::size_t size) {
  const FrameHeader header = frame.header();
  const Rank rank{header.sender};
  const bool known = size >= sizeof(header) && header.sender >= 0 &&
                     header.sender < peers_.size() && peers_[rank] &&
                     Frame::is_sealed({frame.data, size}, peers_[rank]->incoming);
  if (!known) {
    warnings_.warn("a message", "it is from outside the job");
    return pool_.give_back(frame);
  }
  Peer& peer = *peers_[rank];
  if (header.kind == FrameHeader::Kind::data && header.number <= peer.receiver.taken()) {
    warnings_.warn("a message", "somebody has repeated it");
    return pool_.give_back(frame);
  }
  mark_busy(rank);
  peer.sender.acknowledged(header.applied);
  switch (header.kind) {
    case FrameHeader::Kind::hello:
      on_hello(peer, frame, size);
      return pool_.give_back(frame);
    case FrameHeader::Kind::acknowledge:
      peer.receiver.query(header.number);
      return pool_.give_back(frame);
    case FrameHeader::Kind::data:
      return peer.receiver.take(frame, size);
  }
  pool_.give_back(frame);
}

void Exchange::on_hello(Peer& peer, const Frame& frame, std::size_t size) {
  RemoteMemory mirror;
  if (size != sizeof(FrameHeader) + sizeof(mirror)) return;
  std::memcpy(&mirror, frame.data + sizeof(FrameHeader), sizeof(mirror));
  peer.sender.set_remote(mirror);
  peer.met = true;
}

void Exchange::fail(Peer& peer, const std::string& reason) {
  if (peer.failure) return;
  peer.failure = reason;
  peer.failure_due = Deadline::in(time_for_cause);
  peer.given_up = Deadline::in(time_to_give_up);
  peer.sender.abandon();
  peer.reader.abandon();
}

/// Why the peer is no longer there, or nothing.
std::optional<std::string> Exchange::departure_of(Peer& peer) {
  if (peer.receiver.has_left()) return "has destroyed its transport";
  switch (peer.watch.check()) {
    case LivenessWatch::State::left:
      return "has destroyed its transport";
    case LivenessWatch::State::died:
      return "has died";
    case LivenessWatch::State::refused:
      return "no longer listens: it has died or destroyed its transport (or a firewall answers for "
             "it)";
    case LivenessWatch::State::unknown:
    case LivenessWatch::State::alive:
    case LivenessWatch::State::unreachable:
      break;
  }
  if (ended_) return "cannot be reached any more: " + *ended_;
  if (!peer.failure || !peer.failure_due.expired()) return std::nullopt;
  return fmt::format(
      "cannot be reached over {}: {}; look at its own output, then at the network between the "
      "hosts",
      endpoint_->description(), *peer.failure);
}

std::optional<std::string> Exchange::departed(Rank rank) {
  Peer* peer = peers_[rank].get();
  if (!peer) return std::nullopt;
  const std::optional<std::string> reason = departure_of(*peer);
  if (!reason) return std::nullopt;
  fail(*peer, *reason);
  return fmt::format("{} {}", who_is(rank), *reason);
}

void Exchange::say_goodbye() {
  for (int i = 0; i < peers_.size(); ++i) {
    Peer* peer = peers_[Rank{i}].get();
    if (!peer || !peer->met || peer->failure) continue;
    peer->sender.say_goodbye();
    mark_busy(Rank{i});
  }
}

bool Exchange::receives_payload() const {
  const auto lands = [](const auto& peer) { return peer && peer->receiver.landing(); };
  return !ended_ && std::ranges::any_of(peers_, lands);
}

void Exchange::abandon(std::unique_ptr<Exchange> exchange) {
  exchange->liveness_listener_.say_goodbye();
  static_cast<void>(exchange.release());
}

bool Exchange::all_taken() const {
  return std::ranges::all_of(peers_, [](const auto& peer) {
    if (!peer || !peer->met || peer->failure) return true;
    return peer->receiver.has_left() ? peer->sender.idle() : peer->sender.all_applied();
  });
}

}  // namespace capstan::ofi
