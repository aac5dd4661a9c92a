// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/reduce.hpp"

namespace capstan::kernels {

/// Returns a target's kernel for one element type and operation.
using ReduceLookup = ReduceKernel (*)(DataType, ReduceOp);

/// The function of one instruction-set target (Highway's bit names it); nullptr if not compiled.
template <class Function>
struct TargetEntry {
  std::int64_t target;
  Function function;
};

/// Best target first. The baseline that every build has comes last, and may repeat an earlier one.
template <class Function>
using TargetTable = std::array<TargetEntry<Function>, 5>;

// Each table is defined by the source file that is compiled once per target.
extern const TargetTable<ReduceLookup> byte_reductions;
extern const TargetTable<ReduceLookup> integer_reductions;
extern const TargetTable<ReduceLookup> float16_reductions;
extern const TargetTable<ReduceLookup> float_reductions;
extern const TargetTable<CopyKernel> copies;

}  // namespace capstan::kernels

/// The initializer of a TargetTable; usable where Highway's per-target namespaces are complete.
#define CAPSTAN_TARGET_TABLE(FUNCTION)                                                    \
  {                                                                                       \
    {                                                                                     \
      {HWY_AVX3, HWY_CHOOSE_AVX3(FUNCTION)}, {HWY_AVX2, HWY_CHOOSE_AVX2(FUNCTION)},       \
          {HWY_SSE4, HWY_CHOOSE_SSE4(FUNCTION)}, {HWY_NEON, HWY_CHOOSE_NEON(FUNCTION)}, { \
        HWY_STATIC_TARGET, &HWY_STATIC_DISPATCH(FUNCTION)                                 \
      }                                                                                   \
    }                                                                                     \
  }
