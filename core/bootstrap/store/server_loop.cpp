// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store/server_loop.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ranges>
#include <span>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr auto closing_time = 1s;     // for a refused client to read the reason
constexpr auto goodbye_time = 500ms;  // for all clients together to take their last replies

/// The kinds of the poller's tags; a connection's id is its descriptor.
enum Kind : std::uint32_t { listener, wakeup, connection };

Poller::Tag tag_of(const FileDescriptor& socket) {
  return {connection, static_cast<std::uint32_t>(socket.get())};
}

}  // namespace

ServerLoop::ServerLoop(FileDescriptor socket, StoreServer::Settings settings)
    : settings_(std::move(settings)),
      listener_(std::move(socket), poller_, {listener}),
      scopes_(settings_.any_scope),
      warnings_(fmt::format("capstan store at {}: refused", to_string(settings_.endpoint))) {
  poller_.add(wakeup_.descriptor(), {wakeup}, Poller::input);
  listener_.start();
}

void ServerLoop::run() {
  std::unique_lock lock{mutex_};
  try {
    while (!stopping_) serve_once(lock);
  } catch (const std::exception& error) {
    log().error("capstan store at {} stops: {}", to_string(settings_.endpoint), error.what());
  }
  listener_.close();
  const auto linger = Deadline::in(goodbye_time);
  for (auto& [fd, c] : connections_) say_goodbye(*c, linger);
  reap();
}

void ServerLoop::serve_once(std::unique_lock<std::mutex>& lock) {
  const int timeout = next_check_.poll_timeout();
  lock.unlock();
  const auto events = poller_.wait(timeout);
  lock.lock();
  for (const auto& event : events) dispatch(event);
  reap();
  // Newcomers come last: they may get the number of a descriptor closed in this very round.
  accept_all();
  expire();
}

void ServerLoop::stop() {
  const std::lock_guard lock{mutex_};
  stopping_ = true;
  wakeup_.ring();
}

bool ServerLoop::open_scope(const std::string& name) {
  const std::lock_guard lock{mutex_};
  if (!listener_.open()) return false;
  scopes_.open(name);
  return true;
}

void ServerLoop::close_scope(const std::string& name) {
  const std::lock_guard lock{mutex_};
  const auto linger = Deadline::in(goodbye_time);
  for (auto& [fd, c] : connections_) {
    if (c->session.scope() && c->session.scope()->name() == name) say_goodbye(*c, linger);
  }
  reap();
  scopes_.close(name);
}

void ServerLoop::close_listener() {
  const std::lock_guard lock{mutex_};
  listener_.close();
}

bool ServerLoop::listening() const {
  const std::lock_guard lock{mutex_};
  return listener_.open();
}

bool ServerLoop::finished() const {
  const std::lock_guard lock{mutex_};
  return scopes_.all_finished();
}

void ServerLoop::dispatch(const Poller::Event& event) {
  if (event.tag.kind == wakeup) return wakeup_.clear();
  if (event.tag.kind != connection) return;
  const auto found = connections_.find(static_cast<int>(event.tag.id));
  if (found == connections_.end()) return;  // closed earlier in this round
  Connection& c = *found->second;
  if (c.phase == Phase::closing) return discard_input(c);
  if (event.readable) receive(c);
  if (event.writable) flush(c);
  const bool deaf = c.phase == Phase::waiting || c.phase == Phase::sending;
  if (event.ended || (deaf && event.peer_closed)) c.phase = Phase::broken;
  enter_phase(c);
}

void ServerLoop::accept_all() {
  listener_.accept_all(
      [this](Accepted accepted) { check_user(std::move(accepted)); },
      [this](const std::string& why) { warnings_.warn("new clients for a moment", why); });
  next_check_ = next_check_.clamp(listener_.resume());
}

void ServerLoop::check_user(Accepted accepted) {
  const bool local = std::holds_alternative<AbstractEndpoint>(settings_.endpoint);
  if (!local) tune(accepted.socket, wire::dead_host_time);
  const auto uid = local ? peer_uid(accepted.socket) : ::geteuid();
  auto peer =
      local ? fmt::format("a process of user {}", uid) : to_string(accepted.from.endpoint());
  if (uid != ::geteuid() && !settings_.any_user)
    return warnings_.warn(peer, "this store serves its own user only");
  admit(std::move(accepted.socket), std::move(peer));
}

void ServerLoop::admit(FileDescriptor socket, std::string peer) {
  if (connections_.size() >= settings_.max_connections) {
    warnings_.warn(peer, fmt::format("{} connections are the most", settings_.max_connections));
    return turn_away(socket);
  }
  make_room_for_stranger();
  const int fd = socket.get();
  auto c =
      std::make_unique<Connection>(std::move(socket), std::move(peer), scopes_, settings_.secret);
  c->due = Deadline::in(settings_.handshake_timeout);
  next_check_ = next_check_.clamp(c->due);
  poller_.add(fd, tag_of(c->socket), Poller::input | Poller::peer_closed);
  connections_.emplace(fd, std::move(c));
}

/// Closes the oldest connection without a proof, whose time is up first, if there are too many.
void ServerLoop::make_room_for_stranger() {
  const auto is_stranger = [](const auto& entry) { return !entry.second->session.authenticated(); };
  const auto count = std::ranges::count_if(connections_, is_stranger);
  if (static_cast<std::size_t>(count) < most_strangers(settings_.max_strangers)) return;
  auto strangers = connections_ | std::views::filter(is_stranger);
  const auto oldest = std::ranges::min_element(
      strangers, {}, [](const auto& entry) { return entry.second->due.when(); });
  warnings_.warn(oldest->second->peer, "too many others have come since, none with a proof");
  oldest->second->phase = Phase::broken;
  reap();
}

void ServerLoop::turn_away(const FileDescriptor& socket) {
  const auto frame = wire::encode(
      wire::Refusal{wire::FailureReason::full, "the store has as many connections as it may"});
  send_all(socket, frame);
}

void ServerLoop::receive(Connection& c) {
  try {
    receive_frame(c);
  } catch (const MalformedMessage& error) {
    warnings_.warn(c.peer, error.what());
    if (error.kind() == MalformedMessage::Kind::other_protocol) {
      c.phase = Phase::broken;
    } else {
      send(c, wire::Refusal{wire::FailureReason::malformed, error.what()});
    }
  }
}

/// Reads one frame at most, so that every connection gets its turn.
void ServerLoop::receive_frame(Connection& c) {
  while (true) {
    const auto count = receive_some(c.socket, c.conversation.space());
    if (count < 0 && would_block(errno)) return;
    if (count <= 0) {
      c.phase = Phase::broken;
      return;
    }
    c.conversation.commit(static_cast<std::size_t>(count));
    if (const auto message = c.conversation.take()) return react(c, c.session.on(*message));
  }
}

/// Unread input would turn the close into a reset, which can overtake the last reply.
void ServerLoop::discard_input(Connection& c) {
  std::array<std::byte, 4096> waste;
  for (int i = 0; i < 32; ++i) {
    const auto count = receive_some(c.socket, waste);
    if (count > 0) continue;
    if (count == 0 || !would_block(errno)) c.phase = Phase::broken;
    return;
  }
}

void ServerLoop::react(Connection& c, ServerSession::Reaction reaction) {
  if (!reaction.warning.empty()) warnings_.warn(c.peer, reaction.warning);
  if (reaction.reply) send(c, *reaction.reply);
  if (reaction.keys) c.conversation.seal(reaction.keys->for_acceptor(), wire::max_payload);
  if (reaction.stored) answer_waiters(*c.session.scope());
}

void ServerLoop::answer_waiters(const Scope& scope) {
  for (auto& [fd, c] : connections_) {
    if (c->session.scope() != &scope || c->phase == Phase::broken) continue;
    if (const auto reply = c->session.answer()) {
      send(*c, *reply);
      enter_phase(*c);
    }
  }
}

void ServerLoop::send(Connection& c, const wire::StoreMessage& message) {
  c.output = c.conversation.encode(message);
  c.sent = 0;
  c.last_words = std::holds_alternative<wire::Refusal>(message);
  flush(c);
}

void ServerLoop::flush(Connection& c) {
  while (c.sent < c.output.size()) {
    const auto count = send_some(c.socket, std::span{c.output}.subspan(c.sent));
    if (count < 0 && would_block(errno)) return;
    if (count < 0) {
      c.phase = Phase::broken;
      return;
    }
    c.sent += static_cast<std::size_t>(count);
  }
  c.output = {};
  c.sent = 0;
  if (c.last_words) ::shutdown(c.socket.get(), SHUT_WR);
}

ServerLoop::Phase ServerLoop::phase_of(const Connection& c) const {
  if (c.phase == Phase::broken) return Phase::broken;
  if (!c.output.empty()) return Phase::sending;
  if (c.last_words) return Phase::closing;
  if (c.session.waiting()) return Phase::waiting;
  if (!c.session.authenticated()) return Phase::handshaking;
  return c.conversation.inside_message() ? Phase::receiving : Phase::idle;
}

void ServerLoop::enter_phase(Connection& c) {
  const Phase next = phase_of(c);
  if (next == c.phase) return;
  c.phase = next;
  switch (next) {
    case Phase::handshaking:
      c.due = Deadline::in(settings_.handshake_timeout);
      break;
    case Phase::receiving:
    case Phase::sending:
      c.due = Deadline::in(settings_.transfer_timeout);
      break;
    case Phase::waiting:
      c.due = c.session.wait_deadline();
      break;
    case Phase::closing:
      c.due = Deadline::in(closing_time);
      break;
    case Phase::idle:
    case Phase::broken:
      c.due = Deadline::never();
      break;
  }
  next_check_ = next_check_.clamp(c.due);
  if (next != Phase::broken) set_interest(c);
}

void ServerLoop::set_interest(const Connection& c) {
  std::uint32_t interests = Poller::input | Poller::peer_closed;
  if (c.phase == Phase::waiting) interests = Poller::peer_closed;
  if (c.phase == Phase::sending) interests = Poller::output | Poller::peer_closed;
  if (c.phase == Phase::closing) interests = Poller::input;
  poller_.modify(c.socket.get(), tag_of(c.socket), interests);
}

void ServerLoop::say_goodbye(Connection& c, Deadline linger) {
  if (c.session.waiting()) send(c, c.session.give_up(wire::FailureReason::stopping));
  while (!c.output.empty() && c.phase != Phase::broken && wait_for(c.socket, POLLOUT, linger)) {
    flush(c);
  }
  discard_input(c);
  c.phase = Phase::broken;
}

void ServerLoop::expire() {
  if (!next_check_.expired()) return;
  next_check_ = listener_.resume();
  for (auto& [fd, c] : connections_) {
    if (c->due.expired()) expire(*c);
    next_check_ = next_check_.clamp(c->due);
  }
  reap();
}

void ServerLoop::expire(Connection& c) {
  if (c.phase == Phase::waiting) {
    send(c, c.session.give_up(wire::FailureReason::timed_out));
    return enter_phase(c);
  }
  if (c.phase == Phase::handshaking) warnings_.warn(c.peer, "no proof of the secret in time");
  if (c.phase == Phase::receiving) warnings_.warn(c.peer, "it stopped in the middle of a message");
  if (c.phase == Phase::sending) warnings_.warn(c.peer, "it does not read its replies");
  c.phase = Phase::broken;
  c.due = Deadline::never();
}

void ServerLoop::reap() {
  std::erase_if(connections_, [this](const auto& entry) {
    if (entry.second->phase != Phase::broken) return false;
    hang_up(entry.second->socket);
    return true;
  });
  if (scopes_.all_complete()) listener_.close();
}

/// To be called before a connection is closed. If a forked child holds a copy of the socket, a
/// close alone ends neither the connection nor the watch: the loop would spin on events of an
/// unknown connection.
void ServerLoop::hang_up(const FileDescriptor& socket) {
  poller_.remove(socket.get());
  ::shutdown(socket.get(), SHUT_RDWR);
}

}  // namespace capstan
