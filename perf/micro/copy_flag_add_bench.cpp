// SPDX-License-Identifier: Apache-2.0

// The least cost of a staged all-reduce of two ranks: each of two threads copies its input to a
// slot of its own, raises a flag, waits for the other's, and adds the two. The slots of a thread
// take `footprint` bytes, and each is written again when its turn comes. Uses the first two cores
// of the process. Time is that of a call.
//
//   Plain, Memcpy, RepMovsb, Streamed / BYTES / FOOTPRINT     by the way in which slots are written
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "kernels/cpu/reduce.hpp"
#include "perf/micro/stay_on_core.hpp"
#include "transports/common/mapping.hpp"
#include "transports/shm/memfd.hpp"

namespace capstan::perf {
namespace {

constexpr std::size_t line = 64, most = 4 << 20;

using Write = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

void plain(std::byte* to, const std::byte* from, std::size_t bytes) {
  using Vector = std::uint64_t __attribute__((vector_size(line), aligned(line), may_alias));
  for (std::size_t at = 0; at < bytes; at += line)
    *reinterpret_cast<Vector*>(to + at) = *reinterpret_cast<const Vector*>(from + at);
}
void by_memcpy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
void rep_movsb(std::byte* to, const std::byte* from, std::size_t bytes) {
#ifdef __x86_64__
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}
void streamed(std::byte* to, const std::byte* from, std::size_t bytes) {
  kernels::copy(to, from, bytes, true);
}

void add(std::byte* to, const std::byte* own, const std::byte* other, std::size_t bytes) {
  static const auto kernel = kernels::reduce_kernel(DataType::f32, ReduceOp::sum);
  const void* const sources[] = {own, other};
  kernel({.destination = to,
          .sources = sources,
          .source_count = 2,
          .element_count = bytes / sizeof(float)});
}

/// How far a thread is, in lines that nobody else writes.
struct Side {
  alignas(2 * line) std::atomic<std::uint64_t> written = 0;
  alignas(2 * line) std::atomic<std::uint64_t> read = 0;
};

/// One thread's half of the calls.
class Rank {
 public:
  Rank(std::byte* own, const std::byte* other, Side& mine, const Side& theirs, std::size_t bytes,
       std::size_t footprint)
      : own_(own),
        other_(other),
        mine_(mine),
        theirs_(theirs),
        bytes_(bytes),
        slots_(footprint / bytes),
        input_(bytes / line),
        output_(bytes / line) {}

  /// False: `over` was set, and the other makes no more calls.
  bool call(Write write, const std::atomic<bool>& over) {
    const std::size_t slot = calls_ % slots_ * bytes_;
    auto* const input = reinterpret_cast<std::byte*>(input_.data());
    if (calls_ >= slots_ && !reaches(theirs_.read, calls_ - slots_ + 1, over)) return false;
    write(own_ + slot, input, bytes_);
    mine_.written.store(++calls_, std::memory_order_release);
    if (!reaches(theirs_.written, calls_, over)) return false;
    add(reinterpret_cast<std::byte*>(output_.data()), input, other_ + slot, bytes_);
    mine_.read.store(calls_, std::memory_order_release);
    return true;
  }

 private:
  struct alignas(line) Line {
    std::byte bytes[line]{};
  };
  static bool reaches(const std::atomic<std::uint64_t>& count, std::uint64_t value,
                      const std::atomic<bool>& over) {
    while (count.load(std::memory_order_acquire) < value)
      if (over.load(std::memory_order_relaxed)) return false;
    return true;
  }

  std::byte* const own_;
  const std::byte* const other_;
  Side& mine_;
  const Side& theirs_;
  const std::size_t bytes_, slots_;
  std::vector<Line> input_, output_;
  std::uint64_t calls_ = 0;
};

void run(benchmark::State& state, Write write) {
  const auto bytes = static_cast<std::size_t>(state.range(0)),
             footprint = static_cast<std::size_t>(state.range(1));
  const auto memory = shm::Memfd::create(Bytes{2 * most});
  std::byte* const first = memory.mapping.data();
  std::byte* const second = first + most;
  std::memset(first, 0, 2 * most);
  Side sides[2];
  std::atomic<bool> over = false;
  std::latch both{2};  // a thread begins on the core of its parent, which must not poll there yet
  std::jthread other{[&] {
    stay_on_core(1);
    both.arrive_and_wait();
    Rank rank{second, first, sides[1], sides[0], bytes, footprint};
    while (rank.call(write, over));
  }};
  stay_on_core(0);
  both.arrive_and_wait();
  Rank rank{first, second, sides[0], sides[1], bytes, footprint};
  for (auto _ : state) rank.call(write, over);
  over = true;
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t bytes : {2 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20})
    for (const std::int64_t footprint : {128 << 10, 512 << 10, 2 << 20})
      if (footprint >= 2 * bytes) bench->Args({bytes, footprint});
  bench->UseRealTime();
}

BENCHMARK_CAPTURE(run, Plain, plain)->Apply(sizes);
BENCHMARK_CAPTURE(run, Memcpy, by_memcpy)->Apply(sizes);
BENCHMARK_CAPTURE(run, RepMovsb, rep_movsb)->Apply(sizes);
BENCHMARK_CAPTURE(run, Streamed, streamed)->Apply(sizes);

}  // namespace
}  // namespace capstan::perf

BENCHMARK_MAIN();
