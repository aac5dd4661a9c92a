// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/reduce.hpp"

namespace capstan::kernels {

/// The kernels of f8_e4m3 and f8_e5m2; nullptr where the operation is not defined. They use the
/// active target's kernels of f32.
ReduceKernel find_float8_kernel(DataType type, ReduceOp op);

/// The kernels of c64 and c128; nullptr where the operation is not defined.
ReduceKernel find_complex_kernel(DataType type, ReduceOp op);

}  // namespace capstan::kernels
