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
#include "core/bootstrap/socket.hpp"
#include "core/net/network.hpp"
#include "core/net/secret.hpp"
#include "perf/collectives/wire.hpp"

namespace capstan::perf {
namespace {

/// Where a rank takes its left neighbour's connection, and the word by which it knows it.
struct Door {
  int local_rank = 0;
  std::string endpoint, word;
};

/// The ranks of each host, in order. Ranks of one host follow each other.
std::vector<std::vector<Door>> doors_of_all(Store& store, const Launch& launch,
                                            const Deadline& deadline) {
  std::vector<std::vector<Door>> hosts;
  for (int rank = 0; rank < launch.size; ++rank) {
    std::istringstream text{store.get_text(fmt::format("bound/door/{}", rank), deadline)};
    Door door;
    text >> door.local_rank >> door.endpoint >> door.word;
    if (door.local_rank == 0 || hosts.empty()) hosts.emplace_back();
    hosts.back().push_back(door);
  }
  return hosts;
}

bool send_word(const FileDescriptor& socket, const std::string& word) {
  return ::send(socket.get(), word.data(), word.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(word.size());
}

bool hears_word(const FileDescriptor& socket, const std::string& word, const Deadline& deadline) {
  std::string heard(word.size(), '\0');
  for (std::size_t got = 0; got < heard.size();) {
    if (!wait_for(socket, POLLIN, deadline)) return false;
    const ssize_t more = ::recv(socket.get(), heard.data() + got, heard.size() - got, 0);
    if (more <= 0) return false;
    got += static_cast<std::size_t>(more);
  }
  return heard == word;
}

FileDescriptor connect_to_door(const Door& door, const Deadline& deadline) {
  const auto address = resolve(parse_endpoint(door.endpoint, "the bound's address")).front();
  auto [socket, error] = connect_to(address, deadline);
  if (!socket.valid() || !send_word(socket, door.word))
    throw SystemError(fmt::format("the bound cannot reach {}", door.endpoint));
  return std::move(socket);
}

/// Whoever does not know the word is turned away.
FileDescriptor open_door(const FileDescriptor& listener, const Door& door,
                         const Deadline& deadline) {
  while (wait_for(listener, POLLIN, deadline)) {
    FileDescriptor socket{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    const auto patience = Deadline::in(std::chrono::seconds{5}).clamp(deadline);
    if (socket.valid() && hears_word(socket, door.word, patience)) return socket;
  }
  throw SystemError("no neighbour has connected to the bound");
}

class WireBound : public Library {
 public:
  WireBound(const Launch& launch, Store& store) : launch_(launch) {
    const auto deadline = Deadline::in(std::chrono::seconds{60});
    const auto address = choose_address(Settings::from_environment().interface).address.text();
    const FileDescriptor listener = listen_on(TcpEndpoint{address, 0});
    const Door own{launch.local_rank, to_string(local_address(listener).endpoint()), random_text()};
    store.put_text(fmt::format("bound/door/{}", launch.rank),
                   fmt::format("{} {} {}", own.local_rank, own.endpoint, own.word));
    const auto hosts = doors_of_all(store, launch, deadline);
    find_place(hosts, own);
    if (lane_ >= lanes_) return;
    const bool pair = hosts_ == 2;  // then one wire goes both ways
    if (!pair || host_ == 0)
      right_.emplace(connect_to_door(hosts[(host_ + 1) % hosts_][lane_], deadline),
                     wire_call_bytes);
    if (!pair || host_ == 1) left_.emplace(open_door(listener, own, deadline), wire_call_bytes);
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
      case Collective::reduce:  // round the ring to host 0
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

  void find_place(const std::vector<std::vector<Door>>& hosts, const Door& own) {
    hosts_ = hosts.size();
    if (hosts_ < 2) throw InvalidArgument("the bound of a wire needs ranks on two hosts");
    lane_ = static_cast<std::size_t>(own.local_rank);
    lanes_ =
        std::ranges::min_element(hosts, {}, [](const auto& host) { return host.size(); })->size();
    while (host_ < hosts_ && (lane_ >= hosts[host_].size() || hosts[host_][lane_].word != own.word))
      ++host_;
  }

  /// So many bytes of a host out and in; its lanes share them.
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
  std::size_t hosts_ = 0, host_ = 0;  // how many, and which of them this is
  std::size_t lanes_ = 0, lane_ = 0;  // wires between two neighbours, and which of them is its
  std::optional<Wire> right_, left_;
};

}  // namespace

std::unique_ptr<Library> wire_bound(const Launch& launch, Store& store) {
  return std::make_unique<WireBound>(launch, store);
}

}  // namespace capstan::perf
