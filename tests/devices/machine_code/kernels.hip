// SPDX-License-Identifier: Apache-2.0

// A kernel of each kind, which check.py compiles for all of AMD's machines that are supported.
#include "kernels/hip/machine.hpp"
//
#include "kernels/device/kernels.hpp"

namespace device = capstan::kernels::device;

static_assert(device::HipMachine::warp_size == CAPSTAN_WAVE,
              "of the waves that the compiler makes");

extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, device::threads_of_lane))) void
capstan_run_f32_sum(device::ProgramArguments arguments) {
  device::run_kernel<float, capstan::ReduceOp::sum>(device::HipMachine{}, arguments);
}
