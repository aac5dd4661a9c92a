#pragma once

namespace capstan {

/// Whether a sanitizer watches every access: all takes several times as long then, and what is
/// watched is the code, not what it works out. So tests try fewer cases of a kind.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool watched = true;
#else
inline constexpr bool watched = false;
#endif

}  // namespace capstan
