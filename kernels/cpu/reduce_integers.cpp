// SPDX-License-Identifier: Apache-2.0

// The kernels of 32-bit and 64-bit integers of all targets: this file is compiled once per target.
#include "kernels/cpu/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_integers.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "kernels/cpu/reduce-inl.hpp"
#include "kernels/cpu/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

/// Sums and products modulo 2^bits are the same for signed and unsigned elements.
template <class T>
ReduceKernel integer_kernel(ReduceOp op) {
  using Unsigned = std::make_unsigned_t<T>;
  return kernel_of<T, Unsigned, Unsigned, T>(op);
}

ReduceKernel find_integer_kernel(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::i32:
      return integer_kernel<std::int32_t>(op);
    case DataType::u32:
      return integer_kernel<std::uint32_t>(op);
    case DataType::i64:
      return integer_kernel<std::int64_t>(op);
    case DataType::u64:
      return integer_kernel<std::uint64_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
constinit const TargetTable<ReduceLookup> integer_reductions =
    CAPSTAN_TARGET_TABLE(find_integer_kernel);
}
#endif
