// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "perf/micro/bandwidth.hpp"

namespace capstan::perf {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// The level of memory that holds the operands when a kernel starts.
enum class Level { l1, l2, dram };
inline constexpr std::array levels{Level::l1, Level::l2, Level::dram};
const char* name_of(Level level);

inline constexpr std::array accesses{Access::read, Access::write, Access::streaming_write,
                                     Access::copy, Access::streaming_copy};
const char* name_of(Access access);

/// Bytes of all operands of one call together: half of the cache, or a few MiB of main memory.
std::size_t footprint(Level level);

/// Operands of one call: footprint() bytes each to write and to read. Sources are never written, so
/// that their elements stay normal numbers (subnormal ones are much slower).
struct Operands {
  std::byte* to;
  const std::byte* from;
};

/// One thread's share of the benchmark's memory, page-aligned. In main memory each call gets other
/// operands, so that they have left the caches before they are used again.
class Region {
 public:
  Region(std::size_t thread, std::size_t threads);
  Operands next(Level level);

 private:
  std::size_t first_, slices_, turn_ = 0;
};

/// Bytes per second that cross between the cores and the level, summed over `threads`; the best of
/// several rounds.
double measure(Access access, Level level, std::size_t threads);

/// The highest bandwidth of any access: no kernel can move its operands faster. Measured once.
double bandwidth_bound(Level level, std::size_t threads);

}  // namespace capstan::perf
