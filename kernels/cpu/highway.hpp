#pragma once

// Included before any Highway header. Restricts the targets to those that differ measurably for
// loads, adds and stores; vectors of unknown length (SVE) cannot be held in arrays of accumulators.
#define HWY_DISABLED_TARGETS \
  (HWY_AVX3_DL | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <hwy/detect_targets.h>
