// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/conformance/world.hpp"
#include "transports/tcp/tcp_address.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace capstan::conformance {

inline constexpr Bytes pair_segment{1 << 16};

inline TcpOptions on_loopback() {
  TcpOptions options;
  options.key = test_key();
  options.interface = "127.0.0.1";
  return options;
}

inline tcp::TcpAddress decoded_tcp(const Address& address) {
  const auto result = tcp::TcpAddress::decode(address);
  if (!result) throw std::runtime_error("the transport's own address cannot be decoded");
  return *result;
}

/// Where the only listener of a transport on_loopback() is.
inline IpEndpoint endpoint_of(const Transport& transport) {
  return decoded_tcp(transport.address()).endpoints().at(0);
}

inline std::ptrdiff_t descriptors_in_use() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

/// The message of the error that `action` ends in.
template <class Failure>
std::string failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& error) {
    return error.what();
  }
  return "nothing: it worked";
}

/// Why rank 0 misses rank 1, when both have met and found that they cannot talk.
inline std::string refusal_between(Transport& rank_0, Transport& rank_1) {
  const std::vector<Address> addresses{rank_0.address(), rank_1.address()};
  rank_0.connect(addresses, Deadline::in(patience));
  rank_1.connect(addresses, Deadline::in(patience));
  rank_0.push(Rank{1}, Bytes{0}, Bytes{8});
  rank_0.wake(rank_0.link(Rank{1}));
  std::optional<std::string> reason;
  wait_until(
      [&] {
        rank_0.progress();
        rank_1.progress();
        return (reason = rank_0.departed(Rank{1})).has_value();
      },
      "the refusal");
  return *reason;
}

/// Ranks 0 and 1, which one thread drives in turn. Their first words are flags for each other.
class TcpPair {
 public:
  explicit TcpPair(const TcpOptions& options = on_loopback(), Bytes segment = pair_segment) {
    for (int rank = 0; rank < 2; ++rank) {
      ranks_[rank] = make_tcp_transport(Rank{rank}, 2, segment, options);
    }
  }

  Transport& operator[](int rank) { return *ranks_[rank]; }
  void destroy(int rank) { ranks_[rank].reset(); }
  std::vector<Address> addresses() const { return {ranks_[0]->address(), ranks_[1]->address()}; }
  void connect() {
    const std::vector<Address> all = addresses();
    for (const auto& rank : ranks_) rank->connect(all, Deadline::in(patience));
  }

  void raise_flag(int from, std::uint64_t value) {
    Transport& transport = *ranks_[from];
    transport.push_from(Rank{1 - from}, Bytes{0}, &value, Bytes{sizeof(value)});
    transport.wake(transport.link(Rank{1 - from}));
  }
  /// The flag that the other one has raised for `rank`.
  std::uint64_t flag_at(int rank) const {
    std::uint64_t value = 0;
    std::memcpy(&value, ranks_[rank]->link(Rank{1 - rank}).segment, sizeof(value));
    return value;
  }
  void progress() {
    for (const auto& rank : ranks_) {
      if (rank) rank->progress();
    }
  }
  template <class Condition>
  void drive_until(Condition condition, std::string_view what) {
    wait_until([&] { return progress(), condition(); }, what);
  }
  void greet(std::uint64_t value = 1) {
    raise_flag(0, value);
    raise_flag(1, value);
    drive_until([&] { return flag_at(0) == value && flag_at(1) == value; }, "flags");
  }
  std::string await_departure(int watcher) {
    std::optional<std::string> reason;
    drive_until([&] { return (reason = ranks_[watcher]->departed(Rank{1 - watcher})).has_value(); },
                "the other one to be missed");
    return *reason;
  }

 private:
  std::unique_ptr<Transport> ranks_[2];
};

}  // namespace capstan::conformance
