// SPDX-License-Identifier: Apache-2.0

// Messages from one core to another through 16 slots of shared memory, as in a broadcast over
// staging buffers. The reader copies each message or sums it with another one. Its mapping is
// read-only or writable: through a writable one some processors migrate a line to the reader in
// exclusive state, so that the writer need not invalidate a shared copy. Uses the first two cores
// of the process.
//
//   CopyMAPPING/BYTES, SumMAPPING/BYTES    time per message
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cpu/reduce.hpp"
#include "perf/micro/stay_on_core.hpp"
#include "transports/common/mapping.hpp"
#include "transports/shm/memfd.hpp"

namespace capstan::perf {
namespace {

constexpr std::uint64_t slots = 16, most = 64 << 10, line = 64;

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  kernels::copy(to, from, bytes, false);
}

void sum(std::byte* to, const std::byte* from, std::size_t bytes) {
  static const auto kernel = kernels::reduce_kernel(DataType::f32, ReduceOp::sum);
  const void* const sources[] = {to, from};
  kernel({.destination = to,
          .sources = sources,
          .source_count = 2,
          .element_count = bytes / sizeof(float)});
}

/// Counters in separate cache lines, so that neither side reads a line while it writes its own.
struct Counters {
  alignas(2 * line) std::atomic<std::uint64_t> written = 0;
  alignas(2 * line) std::atomic<std::uint64_t> read = 0;
  alignas(2 * line) std::atomic<bool> over = false;
};

void wait_for(const std::atomic<std::uint64_t>& counter, std::uint64_t value,
              const std::atomic<bool>& over) {
  while (counter.load(std::memory_order_acquire) < value && !over);
}

void run(benchmark::State& state, void (*use)(std::byte*, const std::byte*, std::size_t),
         int protection) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto memory = shm::Memfd::create(Bytes{slots * most});
  const auto seen = Mapping::shared(memory.fd.get(), Bytes{slots * most}, protection);
  Counters counters;
  std::jthread reader{[&] {
    stay_on_core(1);
    std::vector<std::byte> result(bytes);
    for (std::uint64_t n = 1; !counters.over; ++n) {
      wait_for(counters.written, n, counters.over);
      use(result.data(), seen.data() + n % slots * most, bytes);
      counters.read.store(n, std::memory_order_release);
    }
  }};
  stay_on_core(0);
  const std::vector<std::byte> message(bytes);
  std::uint64_t n = 0;
  for (auto _ : state) {
    if (++n > slots) wait_for(counters.read, n - slots, counters.over);
    copy(memory.mapping.data() + n % slots * most, message.data(), bytes);
    counters.written.store(n, std::memory_order_release);
  }
  counters.over = true;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

constexpr int read_only = PROT_READ, writable = PROT_READ | PROT_WRITE;
BENCHMARK_CAPTURE(run, CopyReadOnly, copy, read_only)->RangeMultiplier(2)->Range(2 << 10, most);
BENCHMARK_CAPTURE(run, CopyWritable, copy, writable)->RangeMultiplier(2)->Range(2 << 10, most);
BENCHMARK_CAPTURE(run, SumReadOnly, sum, read_only)->RangeMultiplier(2)->Range(2 << 10, most);
BENCHMARK_CAPTURE(run, SumWritable, sum, writable)->RangeMultiplier(2)->Range(2 << 10, most);

}  // namespace
}  // namespace capstan::perf

BENCHMARK_MAIN();
