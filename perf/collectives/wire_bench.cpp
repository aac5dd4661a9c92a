// SPDX-License-Identifier: Apache-2.0

// Speed of a pair of plain sockets between two hosts: the bound for everything over TCP. Start it
// on both hosts, the server first:
//
//   wire_bench serve PORT [BYTES]            wire_bench connect ADDRESS PORT [BYTES]
//
// Both sides spin. The one-way time is half a ping-pong of 8 bytes. A stream sends BYTES (64 MiB)
// in calls of 256 KiB, first in one direction, then in both at once as collectives do. It uses a
// buffer of that size, and then a block that stays in the cache.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "perf/collectives/wire.hpp"
#include "perf/measure/statistics.hpp"

namespace {

using capstan::FileDescriptor;
using capstan::perf::Wire;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) {
  fmt::print(stderr, "wire_bench: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

/// Both sides run the same rounds; the client prints the times.
template <class Round>
std::vector<double> times(int rounds, Round round) {
  std::vector<double> all;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    round();
    all.push_back(microseconds(Clock::now() - begin));
  }
  return all;
}

void report(const char* what, const std::vector<double>& all, double share, std::size_t bytes) {
  const double median = capstan::perf::Statistics{all}.median() * share;
  fmt::print("{:<24} {:>10.2f} us", what, median);
  if (bytes > 8) fmt::print("  {:>6.3f} GB/s", static_cast<double>(bytes) / median / 1000);
  fmt::print("\n");
}

void run(int socket, bool client, std::size_t bytes) {
  Wire wire{FileDescriptor{::dup(socket)}, std::max<std::size_t>(bytes, 8)};
  Wire cached{FileDescriptor{socket}, capstan::perf::wire_call_bytes};
  const auto ping_pong = times(20'000, [&] {
    wire.exchange(client ? 8 : 0, client ? 0 : 8);
    wire.exchange(client ? 0 : 8, client ? 8 : 0);
  });
  const auto exchange = times(20'000, [&] { wire.exchange(8, 8); });
  const auto one_way = times(12, [&] {
    wire.exchange(client ? bytes : 0, client ? 0 : bytes);
    wire.exchange(client ? 0 : 1, client ? 1 : 0);
  });
  const auto both_ways = times(12, [&] { wire.exchange(bytes, bytes); });
  const auto in_cache = times(12, [&] { cached.exchange(bytes, bytes); });
  if (!client) return;
  report("8 bytes one way", ping_pong, 0.5, 8);
  report("8 bytes both ways", exchange, 1, 8);
  report("stream one way", one_way, 1, bytes);
  report("streams both ways", both_ways, 1, bytes);
  report("the same in the cache", in_cache, 1, bytes);
}

int listen_and_accept(int port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0), one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (::listen(listener, 1) != 0) fail("listen");
  pollfd wait{listener, POLLIN, 0};
  if (::poll(&wait, 1, 60'000) != 1) fail("nobody connects");
  return ::accept(listener, nullptr, nullptr);
}

int connect_to(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("not an IPv4 address");
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
      return socket;
    ::close(socket);
    ::usleep(100'000);
  }
  fail("connect");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::size_t named = !arguments.empty() && arguments[0] == "connect" ? 3 : 2;
  if (arguments.size() < named || (arguments[0] != "serve" && arguments[0] != "connect")) {
    fmt::print(stderr,
               "usage: wire_bench serve PORT [BYTES]\n"
               "       wire_bench connect ADDRESS PORT [BYTES]\n");
    return 2;
  }
  const std::size_t bytes =
      arguments.size() > named ? std::strtoull(arguments[named].c_str(), nullptr, 10) : 64 << 20;
  const int port = std::atoi(arguments[named - 1].c_str());
  const bool client = named == 3;
  try {
    run(client ? connect_to(arguments[1].c_str(), port) : listen_and_accept(port), client, bytes);
  } catch (const capstan::Error& error) {
    fmt::print(stderr, "wire_bench: {}\n", error.what());
    return 1;
  }
}
