// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/opener.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/printable.hpp"
#include "core/platform/net/limits.hpp"
#include "transports/tcp/tcp_socket.hpp"

namespace capstan::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto head_start = 250ms;  // of each address before the next is tried as well
constexpr auto first_pause = 50ms;  // before a peer that hung up is tried again; then twice that...
constexpr int most_rounds = 8;

}  // namespace

void Opener::open(Rank peer) {
  if (setup_.is_settled(peer) || openings_.contains(peer)) return;
  Opening& opening = openings_[peer];
  opening.endpoints = order_to_try(setup_.own, setup_.local, *setup_.address_of(peer));
  if (opening.endpoints.empty()) {
    opening.failures =
        "it listens on no address that another host can reach: give its transport "
        "another interface";
  }
  step(peer);
}

void Opener::schedule(Opening& opening, Deadline when) {
  opening.next_step = when;
  setup_.wake_at(when);
}

void Opener::step(Rank peer) {
  Opening& opening = openings_.at(peer);
  opening.next_step = Deadline::never();
  while (opening.next < opening.endpoints.size()) {
    if (try_next(peer, opening)) return schedule(opening, Deadline::in(head_start));
  }
  if (!has_attempts(peer)) retry_or_give_up(peer, opening);
}

bool Opener::try_next(Rank peer, Opening& opening) {
  const IpEndpoint endpoint = opening.endpoints[opening.next++];
  Attempt attempt{next_id_++, peer, begin_connect(endpoint, setup_.congestion_control), endpoint,
                  Deadline::in(setup_.connect_timeout)};
  if (!attempt.socket.valid()) {
    const int error = errno;
    if (error == EMFILE || error == ENFILE)
      throw SystemError(fmt::format("rank {}: cannot connect to rank {}: {}: {}",
                                    setup_.self.value(), peer.value(), error_text(error),
                                    limit_behind(error)));
    return fail(attempt, error_text(error));
  }
  tune(attempt.socket, setup_.peer_timeout);
  setup_.poller.add(attempt.socket.get(), {Kind::attempt, attempt.id}, Poller::output);
  setup_.wake_at(attempt.due);
  attempts_.emplace(attempt.id, std::move(attempt));
  return true;
}

void Opener::retry_or_give_up(Rank peer, Opening& opening) {
  if (opening.crossed) return schedule(opening, Deadline::in(setup_.handshake_timeout));
  if (opening.may_retry && opening.rounds < most_rounds) {
    opening.may_retry = false;
    opening.next = 0;
    return schedule(opening, Deadline::in(first_pause * (1 << opening.rounds++)));
  }
  setup_.settle(
      {peer, {}, {}, fmt::format("no connection to rank {}: {}", peer.value(), opening.failures)});
}

/// Returns false, as the attempt is over.
bool Opener::fail(const Attempt& attempt, std::string_view reason) {
  std::string& failures = openings_.at(attempt.peer).failures;
  const std::string line = fmt::format("{}: {}", attempt.endpoint.text(), reason);
  if (failures.find(line) == std::string::npos) failures += (failures.empty() ? "" : "; ") + line;
  return false;
}

void Opener::drop(Attempts::iterator attempt) {
  if (attempt->second.socket.valid()) setup_.poller.remove(attempt->second.socket.get());
  attempts_.erase(attempt);
}

bool Opener::has_attempts(Rank peer) const {
  return std::ranges::any_of(attempts_, [&](const auto& a) { return a.second.peer == peer; });
}

bool Opener::has_reached(Rank peer) const {
  return std::ranges::any_of(
      attempts_, [&](const auto& a) { return a.second.peer == peer && a.second.connected; });
}

void Opener::serve(std::uint32_t id) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  const Rank peer = attempt.peer;
  if (setup_.is_settled(peer)) return;  // otherwise, a moment ago
  bool goes_on = false;
  try {
    goes_on = attempt.connected ? receive(attempt) : finish_connecting(attempt);
  } catch (const MalformedMessage& error) {
    fail(attempt, error.what());
  }
  if (goes_on) return;
  drop(found);
  if (!setup_.is_settled(peer)) step(peer);
}

/// Handles the end of connect(2): the socket is connected, or the attempt has failed.
bool Opener::finish_connecting(Attempt& attempt) {
  const int error = connect_result(attempt.socket);
  if (error != 0) return fail(attempt, error_text(error));
  attempt.connected = true;
  attempt.due = Deadline::never();
  if (!send(attempt, attempt.proofs.hello())) return false;
  setup_.poller.modify(attempt.socket.get(), {Kind::attempt, attempt.id}, Poller::input);
  return true;
}

bool Opener::receive(Attempt& attempt) {
  while (true) {
    const ssize_t got = receive_some(attempt.socket, attempt.reader.space());
    if (got < 0 && would_block(errno)) return true;
    if (got <= 0) {
      openings_.at(attempt.peer).may_retry = true;
      return fail(attempt, got == 0 ? "it hung up" : error_text(errno));
    }
    attempt.reader.commit(static_cast<std::size_t>(got));
    const auto message = attempt.reader.take();
    if (message && !react(attempt, *message)) return false;
  }
}

bool Opener::react(Attempt& attempt, const HandshakeMessage& message) {
  if (const auto* refusal = std::get_if<Refusal>(&message)) {
    openings_.at(attempt.peer).crossed |= refusal->reason == RefusalReason::crossed;
    return fail(attempt, printable(refusal->text));
  }
  const auto* challenge = std::get_if<Challenge>(&message);
  if (challenge && !attempt.proofs.claimed()) return claim(attempt, *challenge);
  const auto* welcome = std::get_if<Welcome>(&message);
  if (welcome && attempt.proofs.claimed()) return check(attempt, *welcome);
  return fail(attempt, "it sends a message out of turn");
}

bool Opener::claim(Attempt& attempt, const Challenge& challenge) {
  const Identity identity{.segment = setup_.segment.value(),
                          .from = setup_.self.value(),
                          .to = attempt.peer.value(),
                          .ranks = setup_.ranks};
  const Secret secret = setup_.secret_between(setup_.self, attempt.peer);
  return send(attempt, attempt.proofs.claim(challenge, identity, secret));
}

bool Opener::check(Attempt& attempt, const Welcome& welcome) {
  if (!attempt.proofs.trusts(welcome)) {
    setup_.warnings.warn(
        attempt.endpoint.text(),
        fmt::format("it is not rank {}, as it lacks the secret", attempt.peer.value()));
    return fail(attempt, "it does not know the secret of the job");
  }
  if (setup_.leads(attempt.peer) && !send(attempt, Choice{})) return false;
  return settle(attempt);
}

/// False when the attempt has failed.
bool Opener::send(Attempt& attempt, const HandshakeMessage& message) {
  if (send_all(attempt.socket, encode(message))) return true;
  openings_.at(attempt.peer).may_retry = true;
  return fail(attempt, error_text(errno));
}

/// Returns false, as the attempt is over.
bool Opener::settle(Attempt& attempt) {
  setup_.poller.remove(attempt.socket.get());
  const auto& [out, in] = attempt.proofs.keys();
  setup_.settle({attempt.peer,
                 std::move(attempt.socket),
                 attempt.endpoint.text(),
                 {},
                 setup_.seals_of(out, in)});
  return false;
}

void Opener::stop(Rank peer) {
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    const auto next = std::next(attempt);
    if (attempt->second.peer == peer) drop(attempt);
    attempt = next;
  }
  openings_.erase(peer);
}

void Opener::handle_timeouts() {
  for (auto attempt = attempts_.begin(); attempt != attempts_.end();) {
    const auto next = std::next(attempt);
    const Rank peer = attempt->second.peer;
    if (attempt->second.due.expired()) {
      fail(attempt->second, fmt::format("no answer within {}", attempt->second.due.budget()));
      drop(attempt);
      if (!setup_.is_settled(peer) && openings_.at(peer).next_step.is_never()) step(peer);
    } else {
      setup_.wake_at(attempt->second.due);
    }
    attempt = next;
  }
  for (auto& [peer, opening] : openings_) {
    if (opening.next_step.expired()) {
      opening.may_retry |= std::exchange(opening.crossed, false);
      if (!setup_.is_settled(peer)) step(peer);
    }
    setup_.wake_at(opening.next_step);
  }
}

std::string Opener::describe(Rank peer) const {
  const auto opening = openings_.find(peer);
  std::string text = opening == openings_.end() ? "" : opening->second.failures;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.peer != peer) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", attempt.endpoint.text(),
                        attempt.connected ? "it accepts, but does not answer" : "no answer yet");
  }
  return text;
}

}  // namespace capstan::tcp
