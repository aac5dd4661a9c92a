// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "kernels/emulation/kernels.hpp"

namespace capstan::kernels::device {
namespace {

struct Named {
  std::string_view name;
  EmulatedProgramKernel kernel;
};

#define CAPSTAN_EMULATED(NAME, TYPE, OP) \
  {"capstan_run_" #NAME "_" #OP, &run_kernel<TYPE, ReduceOp::OP, EmulatedMachine<4>>},

constexpr Named all[] = {CAPSTAN_DEVICE_INTEGERS(CAPSTAN_EMULATED)
                             CAPSTAN_DEVICE_FLOATS(CAPSTAN_EMULATED)};

}  // namespace

EmulatedProgramKernel emulated_program_kernel(std::string_view name) {
  const auto* const found = std::ranges::find(all, name, &Named::name);
  return found == std::end(all) ? nullptr : found->kernel;
}

}  // namespace capstan::kernels::device
