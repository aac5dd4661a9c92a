// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/tools/cli/doctor/probe.hpp"
#include "kernels/cpu/reduce.hpp"
#include "transports/ofi/ofi_transport.hpp"
#include "transports/verbs/verbs_transport.hpp"

namespace capstan::cli {
namespace {

std::string compiler() {
#if defined(__clang__)
  return __VERSION__;  // begins with the compiler's name
#else
  return fmt::format("g++ {}", __VERSION__);
#endif
}

Probe build() {
  const std::string sanitize = CAPSTAN_SANITIZE;
  return {"build", Probe::Status::ok,
          fmt::format("{}, {}, {}{}", CAPSTAN_VERSION, CAPSTAN_BUILD_TYPE, compiler(),
                      sanitize.empty() ? "" : ", sanitizers: " + sanitize)};
}

Probe kernels_built() {
  return {"kernels", Probe::Status::ok,
          fmt::format("{} in use; this CPU runs {}", kernels::active_target(),
                      fmt::join(kernels::available_targets(), ", "))};
}

Probe transports() {
  return {"transports", Probe::Status::ok,
          fmt::format("threads, shm, tcp{}{}", ofi_is_built_in() ? ", ofi" : "",
                      verbs_is_built_in() ? ", verbs" : "")};
}

}  // namespace

Probes build_probes() {
  return {build, kernels_built, transports};
}

}  // namespace capstan::cli
