// SPDX-License-Identifier: Apache-2.0

// The kernels of 8-bit integers of all targets: this file is compiled once per target.
#include "kernels/cpu/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reduce_bytes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "kernels/cpu/reduce-inl.hpp"
#include "kernels/cpu/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

/// Sums and products modulo 2^8 are the same for signed and unsigned elements.
template <class T>
ReduceKernel byte_kernel(ReduceOp op) {
  return kernel_of<T, std::uint8_t, WideByte, T>(op);
}

ReduceKernel find_byte_kernel(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::i8:
      return byte_kernel<std::int8_t>(op);
    case DataType::u8:
      return byte_kernel<std::uint8_t>(op);
    default:
      return nullptr;
  }
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
constinit const TargetTable<ReduceLookup> byte_reductions = CAPSTAN_TARGET_TABLE(find_byte_kernel);
}
#endif
