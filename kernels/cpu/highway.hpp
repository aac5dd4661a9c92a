// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included before any Highway header. Restricts the targets to those that differ measurably for
// loads, adds and stores; vectors of unknown length (SVE) cannot be held in arrays of accumulators.
#define CAPSTAN_TARGETS_LIKE_OTHERS \
  (HWY_AVX3_DL | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// All targets share the code, and it takes minutes to compile with a sanitizer: few of them tell
// enough.
#if defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (CAPSTAN_TARGETS_LIKE_OTHERS | HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#elif defined(__SANITIZE_ADDRESS__)
#define HWY_DISABLED_TARGETS (CAPSTAN_TARGETS_LIKE_OTHERS | HWY_SSE4 | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS CAPSTAN_TARGETS_LIKE_OTHERS
#endif

// The baseline handles one value at a time, by every compiler. Highway's other baseline is loops
// over the lanes of an emulated vector; it takes clang ten times as long to compile.
#define HWY_BROKEN_EMU128 1

#include <hwy/detect_targets.h>
