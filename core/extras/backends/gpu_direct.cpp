// SPDX-License-Identifier: Apache-2.0
#include "capstan/backends/gpu_direct.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace capstan {

void enable_gpu_direct(const Backend& backend, const GpuDirectReport& report) {
  report.require();
  const std::string_view name = backend.name();
  if (name != "nccl" && name != "rccl")
    throw NotSupported(
        name, fmt::format("rank {}: enable_gpu_direct(): the backend {} stages tensors on devices "
                          "through host memory: use nccl or rccl",
                          backend.rank(), name));
  ::setenv("NCCL_IB_DISABLE", "0", 1);
  if (name == "rccl") ::setenv("RCCL_IB_DISABLE", "0", 1);
}

}  // namespace capstan
