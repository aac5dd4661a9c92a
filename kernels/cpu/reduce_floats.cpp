// SPDX-License-Identifier: Apache-2.0

// The f32 and f64 kernels of all targets: this file is compiled once per target.
#include "kernels/cpu/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_floats.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/reduce-inl.hpp"
#include "kernels/cpu/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

ReduceKernel find_float_kernel(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::f32:
      return kernel_of<float, float, float, float>(op);
    case DataType::f64:
      return kernel_of<double, double, double, double>(op);
    default:
      return nullptr;
  }
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
constinit const TargetTable<ReduceLookup> float_reductions =
    CAPSTAN_TARGET_TABLE(find_float_kernel);
}
#endif
