// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kernels/device/kernels.hpp"
#include "kernels/emulation/grid.hpp"

/// The device kernels, compiled for the processor: for tests, and for stand-ins of drivers.
namespace capstan::kernels::device {

/// A kernel that reduces, as one thread of the grid runs it.
template <unsigned warp>
using EmulatedKernel = void (*)(const EmulatedMachine<warp>&, const ReduceArguments&);

/// By the name that modules of devices have for it; null if there is none. With a warp of 4
/// threads there are all, with 32 and 64, as devices have them, a few.
template <unsigned warp>
EmulatedKernel<warp> emulated_kernel(std::string_view name);

/// A kernel that runs programs, on blocks whose warps have 4 threads.
using EmulatedProgramKernel = void (*)(const EmulatedMachine<4>&, const ProgramArguments&);
EmulatedProgramKernel emulated_program_kernel(std::string_view name);

}  // namespace capstan::kernels::device
