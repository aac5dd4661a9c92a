#pragma once

namespace capstan {

/// Lets the other hyperthread of this core have the pipeline for a moment.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks at a condition for a short while: long enough for a peer that runs at the same time,
/// short enough not to keep the core from one that shares it.
template <class Condition>
bool soon(int spins, Condition condition) {
  constexpr int eager = 128;
  for (int i = 0; i < spins; ++i) {
    if (condition()) return true;
    if (i > eager) relax();
  }
  return false;
}

}  // namespace capstan
