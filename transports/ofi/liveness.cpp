#include "transports/ofi/liveness.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/net/system_call.hpp"

namespace capstan::ofi {
namespace {

using namespace std::chrono_literals;

constexpr char goodbye = 'g';
constexpr auto attempt_time = 3s;  // for one address of a peer

// A host that vanishes without a word is noticed after about 15 s.
constexpr int quiet_seconds = 5;
constexpr int probe_seconds = 2;
constexpr int probes = 5;

FileDescriptor open_socket(int family) {
  return FileDescriptor{::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
}

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof(value));
}

void keep_alive(int fd) {
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, quiet_seconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_seconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes);
}

bool is_v4(const MappedIp& ip) {
  constexpr std::array<std::uint8_t, 12> prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(prefix.begin(), prefix.end(), ip.begin());
}

MappedIp loopback() {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
}

/// Starts to connect; false when that failed at once, with errno set.
bool start_connecting(int fd, const MappedIp& ip, std::uint16_t port) {
  int result = 0;
  if (is_v4(ip)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    std::memcpy(&address.sin_addr, ip.data() + 12, sizeof(address.sin_addr));
    result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } else {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    std::memcpy(&address.sin6_addr, ip.data(), sizeof(address.sin6_addr));
    result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  return result == 0 || errno == EINPROGRESS;
}

}  // namespace

WatchPost::WatchPost(int watchers) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;

  socket_ = open_socket(AF_INET6);
  const bool dual = socket_.valid();  // otherwise this kernel has no IPv6
  if (dual) {
    set_option(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    checked(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof(v6)), "bind");
  } else {
    socket_ = open_socket(AF_INET);
    checked(socket_.get(), "socket", "raise ulimit -n if descriptors ran out");
    checked(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof(v4)), "bind");
  }
  checked(::listen(socket_.get(), std::max(watchers, 1) + 64), "listen");

  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  checked(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &size), "getsockname");
  port_ = ntohs(dual ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

void WatchPost::say_goodbye() {
  while (socket_.valid()) {
    const FileDescriptor watcher{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!watcher.valid() && errno != EINTR && errno != ECONNABORTED) break;
    if (watcher.valid()) ::send(watcher.get(), &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  socket_.reset();
}

Watch::Watch(const OfiAddress& peer, const OfiAddress& here) : port_(peer.watch_port) {
  for (const MappedIp& ip : peer.ips) {
    if (ip != MappedIp{}) ips_.insert(ips_.begin(), ip);
  }
  if (peer.on_same_host(here)) ips_.push_back(loopback());
}

Watch::State Watch::settle(State state) {
  socket_.reset();
  return state_ = state;
}

void Watch::start_next() {
  const MappedIp ip = ips_.back();
  ips_.pop_back();
  socket_ = open_socket(is_v4(ip) ? AF_INET : AF_INET6);
  if (!socket_.valid()) return;
  keep_alive(socket_.get());
  attempt_ = Deadline::in(attempt_time);
  if (!start_connecting(socket_.get(), ip, port_)) {
    was_refused_ |= errno == ECONNREFUSED;
    socket_.reset();
  }
}

Watch::State Watch::look() {
  if (state_ == State::alive) return check_connected();
  if (state_ != State::unknown) return state_;
  while (true) {
    if (socket_.valid()) return check_connecting();
    if (ips_.empty()) return settle(was_refused_ ? State::refused : State::unreachable);
    start_next();
  }
}

Watch::State Watch::check_connecting() {
  pollfd query{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&query, 1, 0) <= 0) {
    if (attempt_.expired()) socket_.reset();
    return state_;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) {
    state_ = State::alive;
    return check_connected();
  }
  was_refused_ |= error == ECONNREFUSED;
  socket_.reset();
  return look();
}

Watch::State Watch::check_connected() {
  char byte = 0;
  const ssize_t size = ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
  if (size > 0) return settle(byte == goodbye ? State::left : State::died);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return state_;
  return settle(State::died);
}

}  // namespace capstan::ofi
