// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace capstan {

inline constexpr std::size_t cache_line_bytes = 64;

/// Fetches a cache line that is read soon.
inline void prefetch_for_read(const std::byte* line) {
  __builtin_prefetch(line);
}

/// Fetches a cache line that is written soon, in exclusive state: other cores lose their copies
/// now, and the later store need not wait for that.
inline void prefetch_for_write(std::byte* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*line));  // compilers emit it for few processors
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace capstan
