// SPDX-License-Identifier: Apache-2.0
#include "perf/micro/memory_level.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace capstan::perf {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

std::size_t cache_bytes(int name, std::size_t otherwise) {
  const long reported = sysconf(name);
  return reported > 0 ? static_cast<std::size_t>(reported) : otherwise;
}

/// Size of each of the two areas, one to read and one to write: the size of the last cache, with a
/// limit that development machines can spare.
std::size_t memory_bytes() {
  const std::size_t cache = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 32 * mebibyte);
  return std::clamp(cache, 128 * mebibyte, 512 * mebibyte) / mebibyte * mebibyte;
}

/// Fills memory with a pattern that is about 1 as bf16, f32 or f64, and a normal number as any
/// other type.
std::byte* map_memory() {
  void* mapped =
      mmap(nullptr, memory_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  madvise(mapped, memory_bytes(), MADV_HUGEPAGE);
  auto* words = static_cast<std::uint64_t*>(mapped);
  std::fill_n(words, memory_bytes() / sizeof *words, 0x3F803F803F803F80u);
  return static_cast<std::byte*>(mapped);
}

/// The memory is freed when the program ends.
const Operands& memory() {
  static const Operands mapped{map_memory(), map_memory()};
  return mapped;
}

std::size_t bytes_touched(Level level) {
  return footprint(level) / 2 / 4096 * 4096;
}

/// Bytes per second of each round for one thread.
using Rounds = std::array<double, 15>;

Rounds time_rounds(Access access, Level level, Region region, std::size_t calls,
                   std::barrier<>& start) {
  Rounds rates{};
  for (double& rate : rates) {
    start.arrive_and_wait();
    const Stopwatch watch;
    for (std::size_t call = 0; call < calls; ++call) {
      const auto [to, from] = region.next(level);
      touch(access, to, from + footprint(level) / 2, bytes_touched(level));
    }
    rate = static_cast<double>(calls * traffic(access, bytes_touched(level))) / watch.seconds();
  }
  return rates;
}

}  // namespace

const char* name_of(Level level) {
  constexpr std::array names{"L1", "L2", "DRAM"};
  return names[static_cast<std::size_t>(level)];
}

const char* name_of(Access access) {
  constexpr std::array names{"read", "write", "streaming_write", "copy", "streaming_copy"};
  return names[static_cast<std::size_t>(access)];
}

std::size_t footprint(Level level) {
  if (level == Level::l1) return cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10) / 2;
  if (level == Level::l2) return cache_bytes(_SC_LEVEL2_CACHE_SIZE, 256 << 10) / 2;
  return 8 * mebibyte;
}

Region::Region(std::size_t thread, std::size_t threads)
    : slices_(memory_bytes() / threads / footprint(Level::dram)) {
  first_ = thread * slices_;
  memory();
}

Operands Region::next(Level level) {
  if (level == Level::dram) turn_ = (turn_ + 1) % slices_;
  const std::size_t offset = (first_ + turn_) * footprint(Level::dram);
  return {memory().to + offset, memory().from + offset};
}

double measure(Access access, Level level, std::size_t threads) {
  const std::size_t per_round = (level == Level::dram ? 64 : 32) * mebibyte;
  const std::size_t calls = per_round / traffic(access, bytes_touched(level));
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  std::vector<Rounds> rates(threads);
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back(
          [&, t] { rates[t] = time_rounds(access, level, Region(t, threads), calls, start); });
    }
  }
  Rounds together{};
  for (const Rounds& of_thread : rates) {
    std::ranges::transform(together, of_thread, together.begin(), std::plus());
  }
  return std::ranges::max(together);
}

double bandwidth_bound(Level level, std::size_t threads) {
  static std::mutex mutex;
  static std::map<std::pair<Level, std::size_t>, double> known;
  const std::scoped_lock lock(mutex);
  double& best = known[{level, threads}];
  if (best == 0) {
    for (const Access access : accesses) best = std::max(best, measure(access, level, threads));
  }
  return best;
}

}  // namespace capstan::perf
