// SPDX-License-Identifier: Apache-2.0

// A kernel that runs programs, which check.py compiles for all devices that are supported.
#ifdef __HIP__
#include "kernels/hip/machine.hpp"
#else
#include "kernels/cuda/machine.hpp"
#endif
//
#include "kernels/device/kernels.hpp"

namespace device = capstan::kernels::device;

#ifdef __HIP__
static_assert(device::HipMachine::warp_size == CAPSTAN_WAVE,
              "of the waves that the compiler makes");
extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, device::threads_of_lane))) void
capstan_run_f32_sum(device::ProgramArguments arguments) {
  device::run_kernel<float, capstan::ReduceOp::sum>(device::HipMachine{}, arguments);
}
#else
extern "C" __global__ void __launch_bounds__(device::threads_of_lane)
    capstan_run_f32_sum(const __grid_constant__ device::ProgramArguments arguments) {
  device::run_kernel<float, capstan::ReduceOp::sum>(device::CudaMachine{}, arguments);
}
#endif
