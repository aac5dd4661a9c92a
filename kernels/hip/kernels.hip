// SPDX-License-Identifier: Apache-2.0

// The kernels of AMD's devices. Launched through HIP's interface for modules, by name.
#include "kernels/hip/machine.hpp"
//
#include "kernels/device/kernels.hpp"

namespace device = capstan::kernels::device;
static_assert(device::Machine<device::HipMachine>);

#define CAPSTAN_GLOBAL(THREADS) __attribute__((global, amdgpu_flat_work_group_size(1, THREADS)))
#define CAPSTAN_KERNEL(NAME, TYPE, OP)                                                   \
  extern "C" CAPSTAN_GLOBAL(device::threads_of_block) void capstan_reduce_##NAME##_##OP( \
      device::ReduceArguments arguments) {                                               \
    device::reduce_kernel<TYPE, capstan::ReduceOp::OP>(device::HipMachine{}, arguments); \
  }                                                                                      \
  extern "C" CAPSTAN_GLOBAL(device::threads_of_lane) void capstan_run_##NAME##_##OP(     \
      device::ProgramArguments arguments) {                                              \
    device::run_kernel<TYPE, capstan::ReduceOp::OP>(device::HipMachine{}, arguments);    \
  }

CAPSTAN_DEVICE_INTEGERS(CAPSTAN_KERNEL)
CAPSTAN_DEVICE_FLOATS(CAPSTAN_KERNEL)
