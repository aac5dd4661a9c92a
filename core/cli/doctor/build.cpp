#include <fmt/format.h>

#include "core/cli/doctor/probe.hpp"
#include "kernels/cpu/reduce.hpp"

namespace capstan::cli {
namespace {

Probe build() {
  const std::string sanitize = CAPSTAN_SANITIZE;
  return {"build", Probe::Status::ok,
          fmt::format("{}, {}, g++ {}{}", CAPSTAN_VERSION, CAPSTAN_BUILD_TYPE, __VERSION__,
                      sanitize.empty() ? "" : ", sanitizers: " + sanitize)};
}

Probe kernels_built() {
  return {"kernels", Probe::Status::ok,
          fmt::format("{} in use; this CPU runs {}", kernels::active_target(),
                      fmt::join(kernels::available_targets(), ", "))};
}

Probe transports() {
  return {"transports", Probe::Status::ok, "threads, shm, tcp"};
}

}  // namespace

Probes build_probes() {
  return {build, kernels_built, transports};
}

}  // namespace capstan::cli
