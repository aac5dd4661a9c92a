// SPDX-License-Identifier: Apache-2.0

// The cost of messages between two ranks.
//
//   capstan run -n 2 -- messages_bench [largest bytes] [rounds]
//
// Three measurements take turns for each size: a round trip, half of which is the latency; one
// direction with sixteen messages in flight; and both directions at once. Ranks beyond the second
// only wait.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "capstan/communicator.hpp"
#include "perf/measure/statistics.hpp"

namespace capstan::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int window = 16;

class Bench {
 public:
  Bench(Communicator& world, std::size_t largest)
      : world_(world), peer_(1 - world.rank()), out_(largest, 1), in_(largest) {}

  void there_and_back(std::size_t bytes) {
    if (world_.rank() == 0) world_.send(first(out_, bytes), peer_);
    world_.receive(first(in_, bytes), peer_);
    if (world_.rank() == 1) world_.send(first(out_, bytes), peer_);
  }

  /// The receiver answers the last message, so that the time includes the arrival of all.
  void one_way(std::size_t bytes) {
    std::vector<Work> under_way;
    for (int i = 0; i < window; ++i)
      under_way.push_back(world_.rank() == 0 ? world_.start_send(first(out_, bytes), peer_)
                                             : world_.start_receive(first(in_, bytes), peer_));
    for (const Work& work : under_way) work.wait();
    world_.rank() == 0 ? static_cast<void>(world_.receive(first(in_, 1), peer_))
                       : world_.send(first(out_, 1), peer_);
  }

  void both_ways(std::size_t bytes) {
    const Work receive = world_.start_receive(first(in_, bytes), peer_);
    world_.send(first(out_, bytes), peer_);
    receive.wait();
  }

  /// Returns microseconds per call.
  Statistics time(void (Bench::*call)(std::size_t), std::size_t bytes, int rounds) {
    const auto measure = [&](int calls) {
      const auto start = Clock::now();
      for (int i = 0; i < calls; ++i) (this->*call)(bytes);
      return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
    };
    int calls = static_cast<int>(std::clamp(10e3 / measure(3), 2.0, 1000.0));
    world_.send(std::span{&calls, 1}, peer_);  // both ranks use the smaller number
    int theirs = 0;
    world_.receive(std::span{&theirs, 1}, peer_);
    calls = std::min(calls, theirs);
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) times.push_back(measure(calls));
    return Statistics{std::move(times)};
  }

 private:
  static std::span<std::uint8_t> first(std::vector<std::uint8_t>& data, std::size_t bytes) {
    return std::span{data}.first(bytes);
  }

  Communicator& world_;
  const int peer_;
  std::vector<std::uint8_t> out_, in_;
};

void measure(Communicator& world, std::size_t largest, int rounds) {
  Bench bench{world, largest};
  const bool reports = world.rank() == 0;
  if (reports)
    fmt::print(
        "{} rounds, medians\n{:>10} {:>12} {:>8} {:>12} {:>12}\n{:>10} {:>12} {:>8} {:>12} "
        "{:>12}\n",
        rounds, "size", "latency", "spread", "one way", "both ways", "(bytes)", "(us)", "(%)",
        "(GB/s)", "(GB/s each)");
  for (std::size_t bytes = 1; bytes <= largest; bytes *= 4) {
    const Statistics latency = bench.time(&Bench::there_and_back, bytes, rounds);
    const Statistics stream = bench.time(&Bench::one_way, bytes, rounds);
    const Statistics exchange = bench.time(&Bench::both_ways, bytes, rounds);
    const double size = static_cast<double>(bytes);
    if (reports)
      fmt::print("{:>10} {:>12.2f} {:>8.1f} {:>12.3f} {:>12.3f}\n", bytes, latency.median() / 2,
                 100 * latency.spread(), size * window / stream.median() / 1e3,
                 size / exchange.median() / 1e3);
  }
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) try {
  const auto largest = static_cast<std::size_t>(argc > 1 ? std::atol(argv[1]) : 16 << 20);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  if (largest < 1 || rounds < 1) {
    fmt::print(stderr, "usage: capstan run -n 2 -- messages_bench [largest bytes] [rounds]\n");
    return 2;
  }
  auto world = capstan::Communicator::from_environment();
  if (world.size() < 2) {
    fmt::print(stderr, "messages need two ranks: capstan run -n 2 -- messages_bench\n");
    return 2;
  }
  if (world.rank() < 2) capstan::perf::measure(world, largest, rounds);
  world.barrier();
  return 0;
} catch (const capstan::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
