// The floating-point kernels of all targets: this file is compiled once per target.
#include "kernels/cpu/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_floats.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/reduce-inl.hpp"
#include "kernels/cpu/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

/// `Lane` is the type in which elements are combined and divided.
template <class T, class Lane>
ReduceKernel float_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<T, Sum>;
    case ReduceOp::product:
      return reduce<T, Product>;
    case ReduceOp::min:
      return reduce<T, Min>;
    case ReduceOp::max:
      return reduce<T, Max>;
    case ReduceOp::average:
      return average<T, T, Lane>;
  }
  return nullptr;
}

ReduceKernel find_float_kernel(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::f16:
      return float_kernel<Float16, float>(op);
    case DataType::bf16:
      return float_kernel<BFloat16, float>(op);
    case DataType::f32:
      return float_kernel<float, float>(op);
    case DataType::f64:
      return float_kernel<double, double>(op);
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
