// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/workers/wire_bound.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "capstan/settings.hpp"
#include "core/platform/net/network.hpp"
#include "core/platform/net/secret.hpp"
#include "core/platform/net/socket.hpp"
#include "perf/collectives/wire.hpp"

namespace capstan::perf {
namespace {

/// The listener of a rank, to which its left neighbour connects, and the token that proves who it
/// is.
struct ListenerAddress {
  int local_rank = 0;
  std::string endpoint, token;
};

/// The ranks of each host, in order. Ranks of one host follow each other.
std::vector<std::vector<ListenerAddress>> all_listeners(Store& store, const Launch& launch,
                                                        const Deadline& deadline) {
  std::vector<std::vector<ListenerAddress>> hosts;
  for (int rank = 0; rank < launch.size; ++rank) {
    std::istringstream text{get_text(store, fmt::format("bound/listener/{}", rank), deadline)};
    ListenerAddress listener;
    text >> listener.local_rank >> listener.endpoint >> listener.token;
    if (listener.local_rank == 0 || hosts.empty()) hosts.emplace_back();
    hosts.back().push_back(listener);
  }
  return hosts;
}

bool send_token(const FileDescriptor& socket, const std::string& token) {
  return ::send(socket.get(), token.data(), token.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(token.size());
}

bool receives_token(const FileDescriptor& socket, const std::string& token,
                    const Deadline& deadline) {
  std::string received(token.size(), '\0');
  for (std::size_t got = 0; got < received.size();) {
    if (!wait_for(socket, POLLIN, deadline)) return false;
    const ssize_t more = ::recv(socket.get(), received.data() + got, received.size() - got, 0);
    if (more <= 0) return false;
    got += static_cast<std::size_t>(more);
  }
  return received == token;
}

FileDescriptor connect_to_listener(const ListenerAddress& listener, const Deadline& deadline) {
  const auto address = resolve(parse_endpoint(listener.endpoint, "the bound's address")).front();
  auto [socket, error] = connect_to(address, deadline);
  if (!socket.valid() || !send_token(socket, listener.token))
    throw SystemError(fmt::format("the bound cannot reach {}", listener.endpoint));
  return std::move(socket);
}

/// Accepts the first connection that sends the token and closes all others.
FileDescriptor accept_neighbour(const FileDescriptor& listener, const ListenerAddress& own,
                                const Deadline& deadline) {
  while (wait_for(listener, POLLIN, deadline)) {
    FileDescriptor socket{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    const auto to_prove = Deadline::in(std::chrono::seconds{5}).clamp(deadline);
    if (socket.valid() && receives_token(socket, own.token, to_prove)) return socket;
  }
  throw SystemError("no neighbour has connected to the bound");
}

class WireBound : public Library {
 public:
  WireBound(const Launch& launch, Store& store) : launch_(launch) {
    const auto deadline = Deadline::in(std::chrono::seconds{60});
    const auto address = choose_address(Settings::from_environment().interface).address.text();
    const FileDescriptor listener = listen_on(TcpEndpoint{address, 0});
    const ListenerAddress own{launch.local_rank, to_string(local_address(listener).endpoint()),
                              random_text()};
    put_text(store, fmt::format("bound/listener/{}", launch.rank),
             fmt::format("{} {} {}", own.local_rank, own.endpoint, own.token));
    const auto hosts = all_listeners(store, launch, deadline);
    find_place(hosts, own);
    if (lane_ >= lanes_) return;
    const bool pair = hosts_ == 2;  // then one connection carries both directions
    if (!pair || host_ == 0)
      right_.emplace(connect_to_listener(hosts[(host_ + 1) % hosts_][lane_], deadline),
                     wire_call_bytes);
    if (!pair || host_ == 1)
      left_.emplace(accept_neighbour(listener, own, deadline), wire_call_bytes);
  }

  int rank() const override { return launch_.rank; }
  int size() const override { return launch_.size; }
  bool computes() const override { return false; }

  Call prepare(const Cell& cell, float*, float*) override {
    const std::size_t count = cell.shape.count.value() * sizeof(float), all = count * ranks();
    const std::size_t others = hosts_ - 1;
    switch (cell.collective) {
      case Collective::barrier:
        return [this] { barrier(); };
      case Collective::broadcast:
        return stream(host_ < others ? count : 0, host_ > 0 ? count : 0);
      case Collective::reduce:  // along the ring to host 0
        return stream(host_ > 0 ? count : 0, host_ != 1 ? count : 0);
      case Collective::all_reduce:
        return stream(2 * count * others / hosts_, 2 * count * others / hosts_);
      case Collective::all_gather:
      case Collective::reduce_scatter:
        return stream(all * others / hosts_, all * others / hosts_);
      case Collective::all_to_all: {
        const std::size_t leaving = all * ranks() / hosts_ * others / hosts_;
        return stream(leaving, leaving);
      }
      default:
        return {};
    }
  }

  void barrier() override { exchange(8, 8); }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(launch_.size); }

  void find_place(const std::vector<std::vector<ListenerAddress>>& hosts,
                  const ListenerAddress& own) {
    hosts_ = hosts.size();
    if (hosts_ < 2) throw InvalidArgument("the bound of a wire needs ranks on two hosts");
    lane_ = static_cast<std::size_t>(own.local_rank);
    lanes_ =
        std::ranges::min_element(hosts, {}, [](const auto& host) { return host.size(); })->size();
    while (host_ < hosts_ &&
           (lane_ >= hosts[host_].size() || hosts[host_][lane_].token != own.token))
      ++host_;
  }

  /// A call that sends `out` bytes of a host and receives `in`, split among its lanes.
  Call stream(std::size_t out, std::size_t in) {
    return [this, out = share_of(out), in = share_of(in)] { exchange(out, in); };
  }
  std::size_t share_of(std::size_t bytes) const { return (bytes + lanes_ - 1) / lanes_; }

  void exchange(std::size_t out, std::size_t in) {
    if (!right_ && !left_) return;  // this rank has no lane
    Wire& to = right_ ? *right_ : *left_;
    Wire& from = left_ ? *left_ : *right_;
    Wire::exchange(to, out, from, in);
  }

  const Launch launch_;
  std::size_t hosts_ = 0, host_ = 0;  // number of hosts, and the index of this one
  std::size_t lanes_ = 0, lane_ = 0;  // connections between two hosts, and the index of this rank's
  std::optional<Wire> right_, left_;
};

}  // namespace

std::unique_ptr<Library> wire_bound(const Launch& launch, Store& store) {
  return std::make_unique<WireBound>(launch, store);
}

}  // namespace capstan::perf
