// SPDX-License-Identifier: Apache-2.0

// An all-reduce over shared memory beside the limits of the machine, measured in turns in one run
// on the same pinned processes:
//
//   small   8 bytes through the public API, against a bare exchange of flags between the same cores
//   large   64 MiB per rank (or MIB), against reading every input and writing every output once, at
//           the bandwidth with which all cores together copy past the cache
//
// A hypervisor moves virtual processors, so that they share an L3 at one moment and not at the
// next. Large calls are therefore reported by the duration of a flag exchange before and after each
// round.
//
// Usage: bounds_bench [RANKS] [ROUNDS] [MIB]

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "capstan/communicator.hpp"
#include "kernels/cpu/reduce.hpp"
#include "perf/measure/statistics.hpp"
#include "topology/machine.hpp"

namespace capstan::perf {
namespace {

constexpr int most_ranks = 64;
constexpr int small_calls = 5000;

struct alignas(64) Line {
  std::atomic<std::uint64_t> value;
};

/// Memory that ranks share besides the communicator: flags[writer][reader], a cache line each.
struct Shared {
  Line flags[most_ranks][most_ranks];
};

template <class T>
T* map(std::size_t bytes, int flags) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw SystemError("not enough memory for the benchmark");
  return static_cast<T*>(memory);
}

float* large_buffer(std::size_t bytes, float value) {
  auto* memory = map<float>(bytes, MAP_PRIVATE);
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::fill_n(memory, bytes / sizeof(float), value);
  return memory;
}

/// Microseconds of one round of large calls.
struct Round {
  double exchange;  ///< the longer of the flag exchanges before and after the round
  double copy, all_reduce;
};

class Bench {
 public:
  Bench(Communicator& world, Shared& shared, std::size_t mebibytes)
      : world_(world), shared_(shared), large_bytes_(mebibytes << 20) {}

  void run(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      flags_.push_back(time_of_exchange());
      small_.push_back(slowest([&] { reduce_small(); }) / small_calls);
    }
    for (int i = 0; i < rounds; ++i) large_.push_back(large_round());
    if (world_.rank() == 0) report(rounds);
  }

 private:
  /// Microseconds of the slowest rank.
  template <class Work>
  double slowest(Work work) {
    double time = 0;
    world_.all_reduce(std::span{&time, 1});  // start together
    const auto start = std::chrono::steady_clock::now();
    work();
    time =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    world_.all_reduce(std::span{&time, 1}, ReduceOp::max);
    return time;
  }

  double time_of_exchange() {
    return slowest([&] { exchange_flags(); }) / small_calls;
  }

  Round large_round() {
    const std::size_t count = large_bytes_ / sizeof(float);
    Round round{.exchange = time_of_exchange(), .copy = 0, .all_reduce = 0};
    round.copy = slowest([&] { kernels::copy(output_, input_, large_bytes_, true); });
    round.all_reduce = slowest([&] {
      world_.all_reduce(std::span<const float>{input_, count}, std::span{output_, count},
                        ReduceOp::max);
    });
    round.exchange = std::max(round.exchange, time_of_exchange());
    return round;
  }

  void exchange_flags() {
    const int self = world_.rank(), ranks = world_.size();
    for (int i = 0; i < small_calls; ++i) {
      ++sequence_;
      for (int d = 1; d < ranks; ++d)
        shared_.flags[self][(self + d) % ranks].value.store(sequence_, std::memory_order_release);
      for (int d = 1; d < ranks; ++d)
        while (shared_.flags[(self + d) % ranks][self].value.load(std::memory_order_acquire) <
               sequence_) {
        }
    }
  }

  void reduce_small() {
    float values[2] = {1, 2};
    for (int i = 0; i < small_calls; ++i) world_.all_reduce(std::span{values}, ReduceOp::max);
  }

  void report(int rounds) {
    const Statistics flags{flags_}, small{small_};
    fmt::print("{} ranks, {} rounds, medians (least; quartile distance)\n", world_.size(), rounds);
    print("bare flag exchange", flags, 1, "us");
    print("all_reduce of 8 bytes", small, 1, "us");
    fmt::print("  -> {:.2f} times the bare exchange\n", small.median() / flags.median());
    report("all rounds", [](double) { return true; });
    constexpr double near = 0.15;  // microseconds; cores that share an L3 are faster
    report("while cores were near", [](double exchange) { return exchange < near; });
    report("while some were far", [](double exchange) { return exchange >= near; });
  }

  /// Reports the rounds of large calls whose flag exchange is as wanted.
  template <class Wanted>
  void report(const char* what, Wanted wanted) {
    std::vector<double> copies, calls, shares;
    for (const Round& round : large_) {
      if (!wanted(round.exchange)) continue;
      copies.push_back(round.copy);
      calls.push_back(round.all_reduce);
      shares.push_back(round.copy / round.all_reduce);
    }
    if (copies.empty()) return;
    const Statistics copy{copies};
    const double bytes = static_cast<double>(large_bytes_) * world_.size();
    fmt::print("{}, {}:\n", what, copies.size());
    print(fmt::format("copy of {} MiB on every core", large_bytes_ >> 20), copy, 1e3, "ms");
    print(fmt::format("all_reduce of {} MiB", large_bytes_ >> 20), Statistics{calls}, 1e3, "ms");
    fmt::print("  -> {:.0f} % of the memory bound ({:.1f} GB/s copied by all)\n",
               100 * Statistics{shares}.median(), bytes / copy.median() / 1e3);
  }

  static void print(std::string_view what, const Statistics& times, double scale,
                    std::string_view unit) {
    fmt::print("  {:<34} {:>9.3f} {} ({:.3f}; {:.0f} %)\n", what, times.median() / scale, unit,
               times.least() / scale, 100 * times.spread());
  }

  Communicator& world_;
  Shared& shared_;
  const std::size_t large_bytes_;
  float* const input_ = large_buffer(large_bytes_, 1);
  float* const output_ = large_buffer(large_bytes_, 0);
  std::uint64_t sequence_ = 0;
  std::vector<double> flags_, small_;  // microseconds, by round
  std::vector<Round> large_;
};

int run_rank(const UniqueId& id, int rank, int ranks, const CpuSet& place, Shared& shared,
             int rounds, std::size_t mebibytes) {
  try {
    bind_this_thread(place);
    Communicator world = Communicator::join(id, rank, ranks);
    Bench{world, shared, mebibytes}.run(rounds);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    return 1;
  }
}

int run(int ranks, int rounds, int mebibytes) {
  const Machine machine = Machine::discover();
  if (ranks == 0) ranks = static_cast<int>(machine.cores().size());
  if (ranks < 2 || ranks > most_ranks) {
    fmt::print(stderr, "bounds_bench: {} ranks; choose from 2 to {}\n", ranks, most_ranks);
    return 2;
  }
  if (rounds < 1 || mebibytes < 1) {
    fmt::print(stderr, "bounds_bench: {} rounds of {} MiB; choose 1 at least\n", rounds, mebibytes);
    return 2;
  }
  auto& shared = *map<Shared>(sizeof(Shared), MAP_SHARED);
  const auto places = place_ranks(machine, ranks);
  const UniqueId id = create_unique_id();
  const auto size = static_cast<std::size_t>(mebibytes);
  std::vector<pid_t> children;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0)
      ::_exit(
          run_rank(id, rank, ranks, places[static_cast<std::size_t>(rank)], shared, rounds, size));
    children.push_back(pid);
  }
  int status = run_rank(id, 0, ranks, places.front(), shared, rounds, size);
  for (const pid_t child : children) {
    int ended = 0;
    ::waitpid(child, &ended, 0);
    if (ended != 0) status = 1;
  }
  return status;
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) {
  return capstan::perf::run(argc > 1 ? std::atoi(argv[1]) : 0, argc > 2 ? std::atoi(argv[2]) : 15,
                            argc > 3 ? std::atoi(argv[3]) : 64);
}
