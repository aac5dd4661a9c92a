#pragma once

namespace capstan {

/// Whether a sanitizer watches every access: all takes several times as long then, and what is
/// watched is the code, not what it works out. So tests try fewer cases of a kind.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool watched = true;
#else
inline constexpr bool watched = false;
#endif

/// Whether it is the one that watches what threads do to each other.
#ifdef __SANITIZE_THREAD__
inline constexpr bool watched_for_races = true;
#else
inline constexpr bool watched_for_races = false;
#endif

}  // namespace capstan
