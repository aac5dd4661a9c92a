// SPDX-License-Identifier: Apache-2.0

// The f16 and bf16 kernels of all targets: this file is compiled once per target.
#include "kernels/cpu/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_float16s.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/reduce-inl.hpp"
#include "kernels/cpu/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

ReduceKernel find_float16_kernel(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::f16:
      return kernel_of<Float16, Float16, Float16, float>(op);
    case DataType::bf16:
      return kernel_of<BFloat16, BFloat16, BFloat16, float>(op);
    default:
      return nullptr;
  }
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
constinit const TargetTable<ReduceLookup> float16_reductions =
    CAPSTAN_TARGET_TABLE(find_float16_kernel);
}
#endif
