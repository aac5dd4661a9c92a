// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/liveness.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>

#include "core/platform/net/socket.hpp"
#include "core/platform/net/system_call.hpp"

namespace capstan::ofi {
namespace {

using namespace std::chrono_literals;

constexpr char goodbye = 'g';
constexpr auto attempt_time = 3s;  // per address of a peer

// A host that does not answer for this time counts as dead.
constexpr auto dead_host_time = 15s;

bool is_v4(const MappedIp& ip) {
  constexpr std::array<std::uint8_t, 12> prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(prefix.begin(), prefix.end(), ip.begin());
}

MappedIp loopback() {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
}

SocketAddress address_of(const MappedIp& ip, std::uint16_t port) {
  IpEndpoint endpoint{.ip = {.v6 = !is_v4(ip)}, .port = port};
  const auto bytes = std::as_bytes(std::span{ip}).subspan(endpoint.ip.v6 ? 0 : 12);
  std::ranges::copy(bytes, endpoint.ip.bytes.begin());
  return SocketAddress::of(endpoint);
}

/// Listens on a port of the kernel's choice, of all addresses of this host.
FileDescriptor listen_everywhere(int watchers) {
  FileDescriptor socket = make_socket(AF_INET6);
  const bool dual = socket.valid();  // otherwise this kernel has no IPv6
  if (dual) {
    set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  } else {
    socket = make_socket(AF_INET);
    checked(socket.get(), "socket");
  }
  const SocketAddress any = SocketAddress::of({.ip = {.v6 = dual}});
  checked(::bind(socket.get(), any.get(), any.length), "bind");
  checked(::listen(socket.get(), std::max(watchers, 1) + 64), "listen");
  return socket;
}

}  // namespace

LivenessListener::LivenessListener(int watchers)
    : socket_(listen_everywhere(watchers)), port_(local_address(socket_).ip_endpoint().port) {}

void LivenessListener::say_goodbye() {
  while (socket_.valid()) {
    const FileDescriptor watcher{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!watcher.valid() && errno != EINTR && errno != ECONNABORTED) break;
    if (watcher.valid()) ::send(watcher.get(), &goodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  socket_.reset();
}

LivenessWatch::LivenessWatch(const OfiAddress& peer, const OfiAddress& here)
    : port_(peer.watch_port) {
  for (const MappedIp& ip : peer.ips) {
    if (ip != MappedIp{}) ips_.insert(ips_.begin(), ip);
  }
  if (peer.on_same_host(here)) ips_.push_back(loopback());
}

LivenessWatch::State LivenessWatch::settle(State state) {
  socket_.reset();
  return state_ = state;
}

void LivenessWatch::start_next() {
  const MappedIp ip = ips_.back();
  ips_.pop_back();
  socket_ = make_socket(is_v4(ip) ? AF_INET : AF_INET6);
  if (!socket_.valid()) return;
  tune(socket_, dead_host_time);
  attempt_ = Deadline::in(attempt_time);
  if (!start_connecting(socket_, address_of(ip, port_))) {
    was_refused_ |= errno == ECONNREFUSED;
    socket_.reset();
  }
}

LivenessWatch::State LivenessWatch::check() {
  if (state_ == State::alive) return check_connected();
  if (state_ != State::unknown) return state_;
  while (true) {
    if (socket_.valid()) return check_connecting();
    if (ips_.empty()) return settle(was_refused_ ? State::refused : State::unreachable);
    start_next();
  }
}

LivenessWatch::State LivenessWatch::check_connecting() {
  pollfd query{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&query, 1, 0) <= 0) {
    if (attempt_.expired()) socket_.reset();
    return state_;
  }
  const int error = connect_result(socket_);
  if (error == 0) {
    state_ = State::alive;
    return check_connected();
  }
  was_refused_ |= error == ECONNREFUSED;
  socket_.reset();
  return check();
}

LivenessWatch::State LivenessWatch::check_connected() {
  char byte = 0;
  const ssize_t size = ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
  if (size > 0) return settle(byte == goodbye ? State::left : State::died);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return state_;
  return settle(State::died);
}

}  // namespace capstan::ofi
