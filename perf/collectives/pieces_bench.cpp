// SPDX-License-Identifier: Apache-2.0

// The memory traffic of an all-reduce over staging buffers (direct/staged), without the engine.
// Each rank is a thread on its own core. It copies the blocks that others reduce into its staging
// buffer, sums its own block with theirs, and copies the sums of the others into its output. In
// each step one chunk is copied in, the one before it summed and the one before that copied out; a
// barrier follows. The bound takes turns with it: a copy of the whole buffer past the cache.
//
// A hypervisor moves virtual processors, so rounds are reported by which cores were near each other
// before and after: 3+1 means three cores that exchange flags fast, and one that is far from them.
//
// Usage: pieces_bench [RANKS] [ROUNDS] [MIB] [CHUNK_KIB]

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/reduce.hpp"
#include "perf/measure/statistics.hpp"
#include "perf/micro/stay_on_core.hpp"

namespace capstan::perf {
namespace {

constexpr std::size_t slots = 3, tile = 16 << 10;

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Unmap {
  std::size_t bytes;
  void operator()(char* memory) const { ::munmap(memory, bytes); }
};
using Memory = std::unique_ptr<char, Unmap>;

/// Memory in huge pages where the kernel grants them; every page has been written.
Memory memory_of(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::fill_n(static_cast<char*>(memory), bytes, char{0});
  return {static_cast<char*>(memory), Unmap{bytes}};
}

/// Milliseconds of one rank in one round, by part.
struct Times {
  double bound, call, in, sum, out;
  double busy() const { return in + sum + out; }
};

struct Shape {
  std::size_t ranks, rounds, bytes, chunk;
  std::size_t block() const { return bytes / ranks; }
  std::size_t piece() const { return chunk / ranks; }
  std::size_t steps() const { return block() / piece(); }
};

/// A spinning barrier for all ranks, which also measures how near their cores are.
class Barrier {
 public:
  explicit Barrier(std::size_t ranks) : at_(ranks), near_(ranks, std::vector<char>(ranks)) {
    for (std::size_t r = 0; r < ranks; ++r) between_.emplace_back(ranks);
  }

  void wait(std::size_t rank) {
    const auto turn = at_[rank].turn.load(std::memory_order_relaxed) + 1;
    at_[rank].turn.store(turn, std::memory_order_release);
    for (const Line& other : at_) wait_for(other, turn);
  }

  /// Sizes of the groups of near cores, such as 3+1. All ranks call it and get the same answer.
  std::string placement(std::size_t rank) {
    for (std::size_t a = 0; a < at_.size(); ++a)
      for (std::size_t b = a + 1; b < at_.size(); ++b) {
        wait(rank);
        if (rank == a) near_[a][b] = exchange(a, b) < far;
        if (rank == b) exchange(b, a);
        wait(rank);
      }
    return groups();
  }

 private:
  struct alignas(128) Line {
    std::atomic<std::uint64_t> turn = 0;
  };
  static constexpr double far = 0.3;  // microseconds of a round trip
  static constexpr int exchanges = 2000;

  static void wait_for(const Line& line, std::uint64_t turn) {
    while (line.turn.load(std::memory_order_acquire) < turn) {
    }
  }

  /// Microseconds of one exchange, on cache lines that no other rank reads.
  double exchange(std::size_t self, std::size_t peer) {
    const auto start = Clock::now();
    auto turn = between_[self][peer].turn.load(std::memory_order_relaxed);
    for (int i = 0; i < exchanges; ++i) {
      if (self > peer) wait_for(between_[peer][self], turn + 1);
      between_[self][peer].turn.store(++turn, std::memory_order_release);
      if (self < peer) wait_for(between_[peer][self], turn);
    }
    return 1e3 * milliseconds_since(start) / exchanges;
  }

  std::string groups() const {
    std::vector<std::size_t> group(at_.size()), sizes(at_.size());
    for (std::size_t r = 0; r < group.size(); ++r) {
      group[r] = r;
      for (std::size_t lower = 0; lower < r; ++lower)
        if (near_[lower][r]) group[r] = std::min(group[r], group[lower]);
      ++sizes[group[r]];
    }
    std::ranges::sort(sizes, std::greater());
    sizes.resize(
        static_cast<std::size_t>(std::ranges::count_if(sizes, [](auto n) { return n > 0; })));
    return fmt::format("{}", fmt::join(sizes, "+"));
  }

  std::vector<Line> at_;
  std::vector<std::vector<Line>> between_;  ///< [writer][reader]
  std::vector<std::vector<char>> near_;
};

class Rank {
 public:
  Rank(std::size_t self, const Shape& shape, std::vector<Rank>& all, Barrier& barrier)
      : self_(self), shape_(shape), all_(all), barrier_(barrier) {}

  void run() {
    stay_on_core(static_cast<int>(self_));
    for (std::size_t i = 0; i < shape_.rounds; ++i) {
      Times times{};
      const std::string before = barrier_.placement(self_);
      times.bound =
          together([&] { kernels::copy(output_.get(), input_.get(), shape_.bytes, true); });
      times.call = together([&] { all_reduce(times); });
      const bool stayed = barrier_.placement(self_) == before;
      rounds[stayed ? before : "moved"].push_back(times);
    }
  }

  std::map<std::string, std::vector<Times>> rounds;  ///< by placement

 private:
  template <class Work>
  double together(Work work) {
    barrier_.wait(self_);
    const auto start = Clock::now();
    work();
    barrier_.wait(self_);
    return milliseconds_since(start);
  }

  template <class Work>
  static void timed(double& sum, Work work) {
    const auto start = Clock::now();
    work();
    sum += milliseconds_since(start);
  }

  void all_reduce(Times& times) {
    const std::size_t steps = shape_.steps();
    for (std::size_t step = 0; step < steps + 2; ++step) {
      if (step < steps) timed(times.in, [&] { copy_in(step); });
      if (step >= 1 && step <= steps) timed(times.sum, [&] { sum(step - 1); });
      if (step >= 2) timed(times.out, [&] { copy_out(step - 2); });
      barrier_.wait(self_);
    }
  }

  void copy_in(std::size_t step) {
    for (std::size_t d = 1; d < shape_.ranks; ++d) {
      const std::size_t peer = (self_ + d) % shape_.ranks;
      kernels::copy(in_staging(peer, step), input_.get() + at(peer, step), shape_.piece(), false);
    }
  }

  void sum(std::size_t step) {
    static const auto kernel = kernels::reduce_kernel(DataType::f32, ReduceOp::sum);
    std::vector<const void*> sources(shape_.ranks);
    for (std::size_t done = 0; done < shape_.piece(); done += tile) {
      const std::size_t bytes = std::min(tile, shape_.piece() - done);
      for (std::size_t r = 0; r < shape_.ranks; ++r)
        sources[r] =
            (r == self_ ? input_.get() + at(self_, step) : all_[r].in_staging(self_, step)) + done;
      kernel({.destination = output_.get() + at(self_, step) + done,
              .second_destination = tile_,
              .sources = sources.data(),
              .source_count = sources.size(),
              .element_count = bytes / sizeof(float),
              .stream_destination = true,
              .fetch_ahead = true});
      kernels::copy(summed(step) + done, tile_, bytes, false);
    }
  }

  void copy_out(std::size_t step) {
    for (std::size_t d = 1; d < shape_.ranks; ++d) {
      const std::size_t peer = (self_ + d) % shape_.ranks;
      kernels::copy(output_.get() + at(peer, step), all_[peer].summed(step), shape_.piece(), true);
    }
  }

  /// Offset of a chunk of a block in inputs and outputs.
  std::size_t at(std::size_t block, std::size_t step) const {
    return block * shape_.block() + step * shape_.piece();
  }
  /// A slot has a piece for every rank, then one for the sum of this rank.
  char* in_staging(std::size_t reader, std::size_t step) const {
    return staging_.get() + (step % slots) * (shape_.chunk + shape_.piece()) +
           reader * shape_.piece();
  }
  char* summed(std::size_t step) const { return in_staging(shape_.ranks, step); }

  const std::size_t self_;
  const Shape& shape_;
  std::vector<Rank>& all_;
  Barrier& barrier_;
  Memory input_ = memory_of(shape_.bytes), output_ = memory_of(shape_.bytes),
         staging_ = memory_of(slots * (shape_.chunk + shape_.piece()));
  alignas(64) char tile_[tile];
};

template <class Value>
double median(const std::vector<Times>& rounds, Value value) {
  std::vector<double> values;
  for (const Times& round : rounds) values.push_back(std::invoke(value, round));
  return Statistics{values}.median();
}

void print(const std::string& placement, const std::vector<Times>& rounds, std::size_t rank) {
  fmt::print("{:>9} {:>6} {:>4}", placement, rounds.size(), rank);
  for (const auto part : {&Times::in, &Times::sum, &Times::out})
    fmt::print(" {:>6.2f}", median(rounds, part));
  const double call = median(rounds, &Times::call), bound = median(rounds, &Times::bound);
  fmt::print(" {:>6.2f} {:>6.2f} {:>6.2f} {:>4.0f} %\n", median(rounds, &Times::busy), call, bound,
             100 * bound / call);
}

void report(const Shape& shape, const std::vector<Rank>& ranks) {
  fmt::print("{} MiB, chunks of {} KiB, medians in ms\n", shape.bytes >> 20, shape.chunk >> 10);
  fmt::print("placement rounds rank     in    sum    out   busy    all  bound  of it\n");
  for (const auto& [placement, rounds] : ranks.front().rounds)
    for (std::size_t r = 0; r < ranks.size(); ++r)
      print(placement, ranks[r].rounds.at(placement), r);
}

int run(const Shape& shape) {
  if (shape.ranks < 2 || shape.ranks > std::thread::hardware_concurrency() || shape.rounds < 1 ||
      shape.chunk < 1024 || shape.block() % shape.piece() != 0 || shape.piece() % 64 != 0) {
    fmt::print(
        stderr,
        "pieces_bench: {} ranks, {} rounds, {} MiB, chunks of {} KiB; choose from 2 ranks to "
        "one per core, a round at least, and chunks that fill each rank's part of the buffer "
        "and are a multiple of ranks x 64 bytes\n",
        shape.ranks, shape.rounds, shape.bytes >> 20, shape.chunk >> 10);
    return 2;
  }
  Barrier barrier(shape.ranks);
  std::vector<Rank> ranks;
  ranks.reserve(shape.ranks);
  for (std::size_t r = 0; r < shape.ranks; ++r) ranks.emplace_back(r, shape, ranks, barrier);
  {
    std::vector<std::jthread> threads;
    for (Rank& rank : ranks) threads.emplace_back([&rank] { rank.run(); });
  }
  report(shape, ranks);
  return 0;
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::size_t fallback) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : fallback;
  };
  return capstan::perf::run({.ranks = argument(1, 4),
                             .rounds = argument(2, 9),
                             .bytes = argument(3, 64) << 20,
                             .chunk = argument(4, 256) << 10});
}
