// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/acceptor.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace capstan::tcp {
namespace {

constexpr std::size_t spare_guests = 64;  // strangers, besides one for each rank

}  // namespace

Acceptor::Acceptor(ConnectionSetup& setup, std::vector<FileDescriptor> sockets) : setup_(setup) {
  for (FileDescriptor& socket : sockets) {
    const auto id = static_cast<std::uint32_t>(listeners_.size());
    listeners_.emplace_back(std::move(socket), setup_.poller, Poller::Tag{listener, id});
  }
}

void Acceptor::start() {
  for (Listener& each : listeners_) each.start();
}

void Acceptor::accept_from_listener(std::uint32_t which) {
  Listener& source = listeners_[which];
  source.accept_all(
      [&](Accepted accepted) {
        setup_.shortage.reset();
        admit(std::move(accepted.socket), accepted.from.ip_endpoint().text());
      },
      [&](const std::string& why) {
        setup_.warnings.warn("whoever comes next", why);
        if (!setup_.shortage) setup_.shortage = {Deadline::Clock::now(), why};
      });
  setup_.wake_at(source.resume());
}

void Acceptor::admit(FileDescriptor socket, std::string from) {
  make_room_for_stranger();
  const Deadline due = Deadline::in(setup_.handshake_timeout);
  const std::uint32_t id = next_id_++;
  tune(socket, setup_.peer_timeout);
  setup_.poller.add(socket.get(), {guest, id}, Poller::input);
  setup_.wake_at(due);
  guests_.emplace(id, Guest{std::move(socket), std::move(from), due});
  serve(id);
}

/// Drops the oldest of too many guests that have not proved to be a rank. A rank tries again.
void Acceptor::make_room_for_stranger() {
  const auto is_stranger = [](const auto& guest) { return !guest.second.peer; };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(guests_, is_stranger));
  if (count < most_strangers(static_cast<std::size_t>(setup_.ranks) + spare_guests)) return;
  const auto oldest = std::ranges::find_if(guests_, is_stranger);
  setup_.warnings.warn(oldest->second.from, "too many others have come since");
  drop(oldest);
}

Acceptor::Guests::iterator Acceptor::drop(Guests::iterator guest) {
  if (guest->second.socket.valid()) setup_.poller.remove(guest->second.socket.get());
  return guests_.erase(guest);
}

void Acceptor::serve(std::uint32_t id) {
  const auto found = guests_.find(id);
  if (found == guests_.end()) return;
  Guest& guest = found->second;
  bool stays = false;
  try {
    stays = receive(guest);
  } catch (const MalformedMessage& error) {
    const bool other = error.kind() == MalformedMessage::Kind::other_version;
    refuse(guest, other ? RefusalReason::other_version : RefusalReason::malformed, error.what());
  }
  if (!stays) drop(found);
}

/// Reads all that a guest has sent so far. False when the guest is to be dropped.
bool Acceptor::receive(Guest& guest) {
  while (guest.socket.valid()) {
    const ssize_t got = receive_some(guest.socket, guest.reader.space());
    if (got < 0) return would_block(errno);
    if (got == 0) {
      // A rank that hangs up between messages is no stranger: it may use another connection.
      if (guest.reader.inside_message()) bad_content("it hung up in the middle of a message");
      return false;
    }
    guest.reader.commit(static_cast<std::size_t>(got));
    const auto message = guest.reader.take();
    if (message && !react(guest, *message)) return false;
  }
  return false;
}

bool Acceptor::react(Guest& guest, const HandshakeMessage& message) {
  const auto* hello = std::get_if<Hello>(&message);
  const auto* claim = std::get_if<Claim>(&message);
  if (hello && !guest.proofs.challenged()) {
    guest.due = Deadline::in(setup_.handshake_timeout);
    setup_.wake_at(guest.due);
    return send(guest, guest.proofs.challenge(*hello));
  }
  if (claim && guest.proofs.challenged() && !guest.peer) return check(guest, *claim);
  if (std::holds_alternative<Choice>(message) && guest.peer) return settle(guest, *guest.peer);
  bad_content("it sends a message out of turn");
}

bool Acceptor::check(Guest& guest, const Claim& claim) {
  const Identity& identity = claim.claims;
  const bool exists = identity.from >= 0 && identity.from < setup_.ranks &&
                      identity.to == setup_.self.value() && identity.from != identity.to &&
                      identity.ranks == setup_.ranks;
  const Rank from{exists ? identity.from : identity.to};
  if (!exists || !setup_.address_of(from)) {
    return refuse(guest, RefusalReason::wrong_rank,
                  fmt::format("it says that it is rank {} of {}, and looks for rank {}",
                              identity.from, identity.ranks, identity.to));
  }
  const Secret secret = setup_.secret_between(from, setup_.self);
  if (!guest.proofs.trusts(claim, secret)) {
    return refuse(guest, RefusalReason::wrong_secret,
                  fmt::format("it says that it is rank {}, but lacks the secret", from.value()));
  }
  if (identity.segment != setup_.segment.value()) {
    return refuse(guest, RefusalReason::wrong_segment,
                  fmt::format("it says that it is rank {}, with a segment of {} bytes, not {}",
                              identity.from, identity.segment, setup_.segment.value()));
  }
  if (setup_.is_settled(from)) return refuse(guest, RefusalReason::crossed, {});
  const auto keys = guest.proofs.keys(claim, secret);
  guest.seals = setup_.seals_of(keys.of_acceptor, keys.of_initiator);
  if (!send(guest, guest.proofs.welcome(claim, secret))) return false;
  if (setup_.leads(from)) return settle(guest, from);
  guest.peer = from;
  return true;
}

/// Returns false in any case: a rank whose connection is used is no guest any more.
bool Acceptor::settle(Guest& guest, Rank peer) {
  if (setup_.is_settled(peer)) return refuse(guest, RefusalReason::crossed, {});
  setup_.poller.remove(guest.socket.get());
  setup_.settle({peer, std::move(guest.socket), guest.from, {}, std::move(guest.seals)});
  return false;
}

bool Acceptor::send(Guest& guest, const HandshakeMessage& message) {
  return send_all(guest.socket, encode(message));
}

/// Returns false, as the guest is to be dropped. An empty warning is not logged.
bool Acceptor::refuse(Guest& guest, RefusalReason reason, std::string_view warning) {
  if (!warning.empty()) setup_.warnings.warn(guest.from, warning);
  send(guest, refusal(reason, setup_.segment.value()));
  ::shutdown(guest.socket.get(), SHUT_WR);
  return false;
}

void Acceptor::turn_away(Rank peer) {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const bool is_peer = guest->second.peer == peer;
    if (is_peer) refuse(guest->second, RefusalReason::crossed, {});
    guest = is_peer ? drop(guest) : std::next(guest);
  }
}

void Acceptor::handle_timeouts() {
  for (Listener& each : listeners_) setup_.wake_at(each.resume());
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const std::uint32_t id = guest->first;
    if (guest->second.due.expired()) serve(id);  // its messages may have waited for this rank
    guest = guests_.lower_bound(id);
    if (guest == guests_.end() || guest->first != id) continue;
    const bool late = guest->second.due.expired();
    if (late) setup_.warnings.warn(guest->second.from, "it did not prove to be a rank in time");
    if (!late) setup_.wake_at(guest->second.due);
    guest = late ? drop(guest) : std::next(guest);
  }
}

}  // namespace capstan::tcp
