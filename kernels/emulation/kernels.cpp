// SPDX-License-Identifier: Apache-2.0
#include "kernels/emulation/kernels.hpp"

#include <algorithm>
#include <vector>

namespace capstan::kernels::device {
namespace {

static_assert(Machine<EmulatedMachine<32>>);

template <unsigned warp>
struct Named {
  std::string_view name;
  EmulatedKernel<warp> kernel;
};

#define CAPSTAN_EMULATED(NAME, TYPE, OP) \
  {"capstan_reduce_" #NAME "_" #OP, &reduce_kernel<TYPE, ReduceOp::OP, EmulatedMachine<warp>>},

/// The warp is only the distance between the packs of a thread. So all kernels exist for a small
/// one, of which a test can have many, and a few for those of devices.
template <unsigned warp>
std::vector<Named<warp>> kernels() {
  if constexpr (warp < 32)
    return {CAPSTAN_DEVICE_INTEGERS(CAPSTAN_EMULATED) CAPSTAN_DEVICE_FLOATS(CAPSTAN_EMULATED)};
  else
    return {CAPSTAN_EMULATED(u8, std::uint8_t, sum) CAPSTAN_EMULATED(f16, Float16, max)
                CAPSTAN_EMULATED(f32, float, sum) CAPSTAN_EMULATED(c128, Complex<double>, product)};
}

}  // namespace

template <unsigned warp>
EmulatedKernel<warp> emulated_kernel(std::string_view name) {
  static const auto& all = *new std::vector<Named<warp>>{kernels<warp>()};
  const auto found = std::ranges::find(all, name, &Named<warp>::name);
  return found == all.end() ? nullptr : found->kernel;
}

template EmulatedKernel<4> emulated_kernel<4>(std::string_view);
template EmulatedKernel<32> emulated_kernel<32>(std::string_view);
template EmulatedKernel<64> emulated_kernel<64>(std::string_view);

}  // namespace capstan::kernels::device
