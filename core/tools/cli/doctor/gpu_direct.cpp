// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/gpu_direct.hpp"

#include <fmt/format.h>

#include "capstan/settings.hpp"
#include "core/platform/device/device_memory.hpp"
#include "core/platform/memory/registration/address_range.hpp"
#include "core/tools/cli/doctor/probe.hpp"

namespace capstan::cli {
namespace {

/// Reports everything that a route lacks, with the remedy of the first obstacle.
template <GpuDirectRoute route>
Probe gpu_direct_by() {
  const RouteReport& report = *gpu_direct().find(route);
  std::string found, missing;
  for (const Finding& finding : report.findings) {
    std::string& reasons = finding.ok ? found : missing;
    reasons += (reasons.empty() ? "" : "; ") + finding.reason;
  }
  std::string name{name_of(route)};
  if (missing.empty()) return {std::move(name), Probe::Status::ok, "GPUDirect: " + found};
  return {std::move(name), Probe::Status::note, "no GPUDirect: " + missing,
          report.obstacle()->remedy};
}

/// The path of buffers on devices, and the reason for it.
Probe device_buffers() {
  const GpuDirectReport& report = gpu_direct();  // loads the drivers that programs may use
  look_for_devices();
  const std::string drivers = device_drivers();
  if (drivers.empty())
    return {"device buffers", Probe::Status::note,
            "none: no CUDA or HIP driver; buffers are in host memory"};
  return {"device buffers", Probe::Status::ok,
          fmt::format("{}: staged through pinned host memory, up to {} a rank, since {}", drivers,
                      readable(Settings::from_environment().pinned_memory),
                      report.supported() ? "transports send host memory only, though network cards "
                                           "could reach a GPU's here"
                                         : "no network card reaches a GPU's memory here")};
}

}  // namespace

Probes gpu_direct_probes() {
  return {device_buffers, gpu_direct_by<GpuDirectRoute::dma_buf>,
          gpu_direct_by<GpuDirectRoute::peer_memory>, gpu_direct_by<GpuDirectRoute::libfabric>};
}

}  // namespace capstan::cli
