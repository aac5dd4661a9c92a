// SPDX-License-Identifier: Apache-2.0

// Time of writing to memory that another core has just read, as with staging buffers: the reader's
// copy of each cache line has to be invalidated first. Uses the first two cores of the process.
//
//   Reduce/BYTES    stores of a reduction of two private sources
//   Copy/BYTES      copy of one private source
//   Tiles/BYTES     the reduction in tiles of 16 KiB, each copied there: what the executor does
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/cpu/reduce.hpp"
#include "perf/micro/stay_on_core.hpp"

namespace capstan::perf {
namespace {

constexpr std::size_t most = 4 << 20, tile = 16 << 10;

/// Reads memory on another core when asked to.
class Reader {
 public:
  explicit Reader(const std::vector<float>& memory) : memory_(memory) {}
  ~Reader() { asked_ = -1; }

  void read(std::size_t bytes) {
    bytes_ = bytes;
    const int turn = asked_ + 1;
    asked_ = turn;
    while (done_ != turn) std::this_thread::yield();
  }

 private:
  void run() {
    stay_on_core(1);
    for (int turn = 1;; ++turn) {
      while (asked_ != turn)
        if (asked_ < 0) return;
      float sum = 0;
      for (std::size_t i = 0; i < bytes_ / sizeof(float); i += 16) sum += memory_[i];
      benchmark::DoNotOptimize(sum);
      done_ = turn;
    }
  }

  const std::vector<float>& memory_;
  std::size_t bytes_ = 0;
  std::atomic<int> asked_ = 0, done_ = 0;
  std::jthread thread_{[this] { run(); }};
};

struct Memory {
  std::vector<float> shared, first, second, tile;
};

void sum(const Memory& memory, float* to, std::size_t at, std::size_t bytes) {
  static const auto kernel = kernels::reduce_kernel(DataType::f32, ReduceOp::sum);
  const void* const sources[] = {memory.first.data() + at, memory.second.data() + at};
  kernel({.destination = to,
          .sources = sources,
          .source_count = 2,
          .element_count = bytes / sizeof(float)});
}

void reduce(Memory& memory, std::size_t bytes) {
  sum(memory, memory.shared.data(), 0, bytes);
}

void copy(Memory& memory, std::size_t bytes) {
  kernels::copy(memory.shared.data(), memory.first.data(), bytes, false);
}

void tiles(Memory& memory, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += tile) {
    const std::size_t length = std::min(tile, bytes - done), at = done / sizeof(float);
    sum(memory, memory.tile.data(), at, length);
    kernels::copy(memory.shared.data() + at, memory.tile.data(), length, false);
  }
}

void run(benchmark::State& state, void (*write)(Memory&, std::size_t)) {
  stay_on_core(0);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<float> numbers(most / sizeof(float), 1);
  Memory memory{numbers, numbers, numbers, std::vector<float>(tile / sizeof(float))};
  Reader reader{memory.shared};
  for (auto _ : state) {
    reader.read(bytes);
    const auto begin = std::chrono::steady_clock::now();
    write(memory, bytes);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // all stores are complete
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

BENCHMARK_CAPTURE(run, Reduce, reduce)->RangeMultiplier(8)->Range(4 << 10, most)->UseManualTime();
BENCHMARK_CAPTURE(run, Copy, copy)->RangeMultiplier(8)->Range(4 << 10, most)->UseManualTime();
BENCHMARK_CAPTURE(run, Tiles, tiles)->RangeMultiplier(8)->Range(4 << 10, most)->UseManualTime();

}  // namespace
}  // namespace capstan::perf

BENCHMARK_MAIN();
