#pragma once

#include <cstddef>

namespace capstan {

/// Fetches a line to read it soon.
inline void fetch_line(const std::byte* line) {
  __builtin_prefetch(line);
}

/// Fetches a line to write it soon: others lose their copies now, not when it is written.
inline void take_line(std::byte* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*line));  // compilers emit it for a few processors only
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace capstan
