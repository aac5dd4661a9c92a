// SPDX-License-Identifier: Apache-2.0

// The kernels of CUDA's devices. Launched through the driver's interface, by name.
#include "kernels/cuda/machine.hpp"
#include "kernels/device/kernels.hpp"

namespace device = capstan::kernels::device;
static_assert(device::Machine<device::CudaMachine>);

#define CAPSTAN_KERNEL(NAME, TYPE, OP)                                                          \
  extern "C" __global__ void __launch_bounds__(device::threads_of_block)                        \
      capstan_reduce_##NAME##_##OP(const __grid_constant__ device::ReduceArguments arguments) { \
    device::reduce_kernel<TYPE, capstan::ReduceOp::OP>(device::CudaMachine{}, arguments);       \
  }                                                                                             \
  extern "C" __global__ void __launch_bounds__(device::threads_of_lane)                         \
      capstan_run_##NAME##_##OP(const __grid_constant__ device::ProgramArguments arguments) {   \
    device::run_kernel<TYPE, capstan::ReduceOp::OP>(device::CudaMachine{}, arguments);          \
  }

#ifndef CAPSTAN_WITHOUT_INTEGERS
CAPSTAN_DEVICE_INTEGERS(CAPSTAN_KERNEL)
#endif
#ifndef CAPSTAN_WITHOUT_FLOATS
CAPSTAN_DEVICE_FLOATS(CAPSTAN_KERNEL)
#endif
