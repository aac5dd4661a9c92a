#pragma once

namespace capstan {

/// Whether a sanitizer checks every access. Code takes several times as long then, and the checks
/// are about the code rather than its results, so tests try fewer cases of each kind.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Whether it is the thread sanitizer, which looks for data races.
#ifdef __SANITIZE_THREAD__
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif

}  // namespace capstan
