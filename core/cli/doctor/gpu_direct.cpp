#include "core/memory/gpu_direct.hpp"

#include "core/cli/doctor/probe.hpp"

namespace capstan::cli {
namespace {

/// All that is missing, since one remedy alone would not do; the remedy of the first.
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

}  // namespace

Probes gpu_direct_probes() {
  return {gpu_direct_by<GpuDirectRoute::dma_buf>, gpu_direct_by<GpuDirectRoute::peer_memory>,
          gpu_direct_by<GpuDirectRoute::libfabric>};
}

}  // namespace capstan::cli
