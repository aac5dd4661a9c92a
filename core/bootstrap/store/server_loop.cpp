#include "core/bootstrap/store/server_loop.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

constexpr auto closing_time = 1s;     // for a refused client to read why
constexpr auto goodbye_time = 500ms;  // for all clients together to take their last replies
constexpr auto accept_pause_time = 100ms;
constexpr int most_warnings = 100;

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK;
}

void watch(const FileDescriptor& epoll, int operation, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll.get(), operation, fd, &event) != 0) {
    throw SystemError(fmt::format("epoll_ctl(): {}", std::strerror(errno)));
  }
}

}  // namespace

ServerLoop::ServerLoop(FileDescriptor listener, StoreServer::Settings settings)
    : settings_(std::move(settings)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      listener_(std::move(listener)),
      scopes_(settings_.any_scope) {
  if (!epoll_.valid() || !wakeup_.valid()) {
    throw SystemError(
        fmt::format("cannot start a store server: epoll or eventfd: {}", std::strerror(errno)));
  }
  watch(epoll_, EPOLL_CTL_ADD, wakeup_.get(), EPOLLIN);
  watch(epoll_, EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
}

void ServerLoop::run() {
  std::unique_lock lock{mutex_};
  try {
    while (!stopping_) serve_once(lock);
  } catch (const std::exception& error) {
    spdlog::error("capstan store at {} stops: {}", to_string(settings_.endpoint), error.what());
  }
  shut_listener();
  const auto linger = Deadline::in(goodbye_time);
  for (auto& [fd, c] : connections_) say_goodbye(*c, linger);
  reap();
}

void ServerLoop::serve_once(std::unique_lock<std::mutex>& lock) {
  std::array<epoll_event, 64> events;
  const int timeout = next_check_.poll_timeout();
  lock.unlock();
  const int ready =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  lock.lock();
  const auto count = static_cast<std::size_t>(std::max(ready, 0));  // -1: a signal came
  for (const auto& event : std::span{events}.first(count)) dispatch(event.data.fd, event.events);
  reap();
  // Newcomers come last: they may get the number of a descriptor closed in this very round.
  accept_all();
  expire();
}

void ServerLoop::stop() {
  const std::lock_guard lock{mutex_};
  stopping_ = true;
  wake();
}

bool ServerLoop::open_scope(const std::string& name) {
  const std::lock_guard lock{mutex_};
  if (!listener_.valid()) return false;
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
  shut_listener();
}

bool ServerLoop::listening() const {
  const std::lock_guard lock{mutex_};
  return listener_.valid();
}

bool ServerLoop::finished() const {
  const std::lock_guard lock{mutex_};
  return scopes_.all_finished();
}

void ServerLoop::dispatch(int fd, std::uint32_t events) {
  if (fd == wakeup_.get()) {
    std::uint64_t count;
    static_cast<void>(!::read(fd, &count, sizeof count));
    return;
  }
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;  // the listener, or closed earlier in this round
  Connection& c = *found->second;
  if (c.phase == Phase::closing) return discard_input(c);
  if (events & EPOLLIN) receive(c);
  if (events & EPOLLOUT) flush(c);
  const bool deaf = c.phase == Phase::waiting || c.phase == Phase::sending;
  if ((events & (EPOLLERR | EPOLLHUP)) || (deaf && (events & EPOLLRDHUP))) c.phase = Phase::broken;
  enter_phase(c);
}

void ServerLoop::accept_all() {
  constexpr int most_at_once = 64;  // the rest waits in the backlog while others are served
  for (int i = 0; i < most_at_once && listener_.valid() && accept_pause_.is_never(); ++i) {
    if (!accept_one()) return;
  }
}

bool ServerLoop::accept_one() {
  SocketAddress from;
  from.length = sizeof from.storage;
  FileDescriptor socket{::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage),
                                  &from.length, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (!socket.valid()) {
    if (would_block(errno)) return false;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_accepting();
    }
    return true;  // else that client gave up, or a signal came: look for the next
  }
  const bool local = std::holds_alternative<AbstractEndpoint>(settings_.endpoint);
  tune(socket, local ? AF_UNIX : from.family());
  const auto uid = local ? peer_uid(socket) : ::geteuid();
  auto peer = local ? fmt::format("a process of user {}", uid) : to_string(from.endpoint());
  if (uid != ::geteuid()) {
    warn(peer, "this store serves its own user only");
  } else {
    admit(std::move(socket), std::move(peer));
  }
  return true;
}

void ServerLoop::admit(FileDescriptor socket, std::string peer) {
  if (connections_.size() >= settings_.max_connections) {
    warn(peer, fmt::format("{} connections are the most", settings_.max_connections));
    return turn_away(socket);
  }
  const int fd = socket.get();
  auto c =
      std::make_unique<Connection>(std::move(socket), std::move(peer), scopes_, settings_.secret);
  c->due = Deadline::in(settings_.handshake_timeout);
  next_check_ = next_check_.clamp(c->due);
  watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP);
  connections_.emplace(fd, std::move(c));
}

void ServerLoop::turn_away(const FileDescriptor& socket) {
  const auto frame = wire::encode(
      wire::Refusal{wire::Reason::full, "the store has as many connections as it may"});
  static_cast<void>(!::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

/// Out of descriptors or memory: without a pause the waiting client would wake the loop for ever.
void ServerLoop::pause_accepting() {
  warn("new clients for a moment",
       fmt::format("{}: raise the limit (ulimit -n)", std::strerror(errno)));
  watch(epoll_, EPOLL_CTL_MOD, listener_.get(), 0);
  accept_pause_ = Deadline::in(accept_pause_time);
  next_check_ = next_check_.clamp(accept_pause_);
}

void ServerLoop::receive(Connection& c) {
  try {
    receive_frame(c);
  } catch (const wire::Malformed& error) {
    warn(c.peer, error.what());
    if (error.kind() == wire::Malformed::Kind::not_capstan) {
      c.phase = Phase::broken;
    } else {
      send(c, wire::Refusal{wire::Reason::malformed, error.what()});
    }
  }
}

/// Reads one frame at most, so that every connection gets its turn.
void ServerLoop::receive_frame(Connection& c) {
  while (true) {
    const auto space = c.reader.space();
    const auto count = ::recv(c.socket.get(), space.data(), space.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return;
    if (count <= 0) {
      c.phase = Phase::broken;
      return;
    }
    c.reader.commit(static_cast<std::size_t>(count));
    if (const auto message = c.reader.take()) return react(c, c.session.on(*message));
  }
}

/// Unread input would turn the close into a reset, which can overtake the last reply.
void ServerLoop::discard_input(Connection& c) {
  std::array<std::byte, 4096> waste;
  for (int i = 0; i < 32; ++i) {
    const auto count = ::recv(c.socket.get(), waste.data(), waste.size(), MSG_DONTWAIT);
    if (count > 0 || (count < 0 && errno == EINTR)) continue;
    if (count == 0 || !would_block(errno)) c.phase = Phase::broken;
    return;
  }
}

void ServerLoop::react(Connection& c, ServerSession::Reaction reaction) {
  if (!reaction.complaint.empty()) warn(c.peer, reaction.complaint);
  if (c.session.authenticated()) c.reader.set_limit(wire::max_payload);
  if (reaction.reply) send(c, *reaction.reply);
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

void ServerLoop::send(Connection& c, const wire::Message& message) {
  c.output = wire::encode(message);
  c.sent = 0;
  c.last_words = std::holds_alternative<wire::Refusal>(message);
  flush(c);
}

void ServerLoop::flush(Connection& c) {
  while (c.sent < c.output.size()) {
    const auto count = ::send(c.socket.get(), c.output.data() + c.sent, c.output.size() - c.sent,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
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
  return c.reader.inside_frame() ? Phase::receiving : Phase::idle;
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
  std::uint32_t events = EPOLLIN | EPOLLRDHUP;
  if (c.phase == Phase::waiting) events = EPOLLRDHUP;
  if (c.phase == Phase::sending) events = EPOLLOUT | EPOLLRDHUP;
  if (c.phase == Phase::closing) events = EPOLLIN;
  watch(epoll_, EPOLL_CTL_MOD, c.socket.get(), events);
}

void ServerLoop::say_goodbye(Connection& c, Deadline linger) {
  if (c.session.waiting()) send(c, c.session.give_up(wire::Reason::stopping));
  while (!c.output.empty() && c.phase != Phase::broken && wait_for(c.socket, POLLOUT, linger)) {
    flush(c);
  }
  discard_input(c);
  c.phase = Phase::broken;
}

void ServerLoop::expire() {
  if (!next_check_.expired()) return;
  next_check_ = Deadline::never();
  if (listener_.valid() && accept_pause_.expired()) {
    accept_pause_ = Deadline::never();
    watch(epoll_, EPOLL_CTL_MOD, listener_.get(), EPOLLIN);
  }
  if (listener_.valid()) next_check_ = next_check_.clamp(accept_pause_);
  for (auto& [fd, c] : connections_) {
    if (c->due.expired()) expire(*c);
    next_check_ = next_check_.clamp(c->due);
  }
  reap();
}

void ServerLoop::expire(Connection& c) {
  if (c.phase == Phase::waiting) {
    send(c, c.session.give_up(wire::Reason::timed_out));
    return enter_phase(c);
  }
  if (c.phase == Phase::handshaking) warn(c.peer, "no proof of the secret in time");
  if (c.phase == Phase::receiving) warn(c.peer, "it stopped in the middle of a message");
  if (c.phase == Phase::sending) warn(c.peer, "it does not read its replies");
  c.phase = Phase::broken;
  c.due = Deadline::never();
}

void ServerLoop::reap() {
  std::erase_if(connections_, [this](const auto& entry) {
    if (entry.second->phase != Phase::broken) return false;
    hang_up(entry.second->socket);
    return true;
  });
  if (scopes_.all_complete()) shut_listener();
}

void ServerLoop::shut_listener() {
  if (!listener_.valid()) return;
  unwatch(listener_);
  listener_.reset();
}

/// Before a connection is closed, for the client to see the end even then.
void ServerLoop::hang_up(const FileDescriptor& socket) {
  unwatch(socket);
  ::shutdown(socket.get(), SHUT_RDWR);
}

/// Where a forked child holds a copy of what is closed, it would stay watched, and what is ready
/// for ever would keep the loop awake.
void ServerLoop::unwatch(const FileDescriptor& closing) {
  watch(epoll_, EPOLL_CTL_DEL, closing.get(), 0);
}

void ServerLoop::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wakeup_.get(), &one, sizeof one));
}

void ServerLoop::warn(const std::string& peer, const std::string& complaint) {
  if (++warnings_ > most_warnings) return;  // nobody may fill the disk through the log
  spdlog::warn("capstan store at {}: refused {}: {}{}", to_string(settings_.endpoint), peer,
               complaint, warnings_ == most_warnings ? " (the last such warning)" : "");
}

}  // namespace capstan
