// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

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

/// Whether objects' types are checked when they are used (UBSan's vptr). The check opens pipes, and
/// its library takes memory.
inline bool object_types_are_checked() {
  return ::dlsym(RTLD_DEFAULT, "__ubsan_handle_dynamic_type_cache_miss") != nullptr;
}

}  // namespace capstan
