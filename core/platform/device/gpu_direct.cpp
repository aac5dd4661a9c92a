// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/gpu_direct.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/platform/device/gpu_direct_probes.hpp"

namespace capstan {

std::string_view name_of(GpuDirectRoute route) {
  constexpr std::string_view names[] = {"dma-buf", "peer memory", "libfabric FI_HMEM"};
  return names[static_cast<int>(route)];
}

std::string_view name_of(GpuVendor vendor) {
  return vendor == GpuVendor::nvidia ? "NVIDIA" : "AMD";
}

const Finding* RouteReport::obstacle() const {
  const auto found = std::ranges::find_if_not(findings, &Finding::ok);
  return found == findings.end() ? nullptr : &*found;
}

bool RouteReport::available() const {
  return obstacle() == nullptr;
}

bool GpuDirectReport::supported() const {
  return std::ranges::any_of(routes, &RouteReport::available);
}

const RouteReport* GpuDirectReport::find(GpuDirectRoute route) const {
  const auto found = std::ranges::find(routes, route, &RouteReport::route);
  return found == routes.end() ? nullptr : &*found;
}

void GpuDirectReport::require() const {
  if (supported()) return;
  std::string reasons;
  for (const RouteReport& report : routes)
    if (const Finding* obstacle = report.obstacle())
      reasons +=
          fmt::format("; {}: {} ({})", name_of(report.route), obstacle->reason, obstacle->remedy);
  throw SystemError("GPUDirect is not possible on this machine" + reasons);
}

GpuDirectReport detect_gpu_direct(const SystemView& system) {
  const GpuDirectProbes probes{system};
  GpuDirectReport report;
  report.vendor = probes.vendor();
  std::vector<Finding> dma_buf{probes.gpu()}, peer_memory{probes.gpu()}, libfabric{probes.gpu()};
  if (report.vendor) {
    const Finding driver = probes.driver(*report.vendor);
    for (auto* findings : {&dma_buf, &peer_memory, &libfabric}) findings->push_back(driver);
    dma_buf.push_back(probes.dma_buf_export(*report.vendor));
    peer_memory.push_back(probes.peer_module(*report.vendor));
  }
  const Finding card = probes.network_card();
  for (auto* findings : {&dma_buf, &peer_memory}) findings->push_back(card);
  dma_buf.push_back(probes.kernel());
  dma_buf.push_back(probes.verbs("ibv_reg_dmabuf_mr"));
  peer_memory.push_back(probes.verbs("ibv_reg_mr"));
  libfabric.push_back(probes.hmem_provider());
  report.routes = {{GpuDirectRoute::dma_buf, std::move(dma_buf)},
                   {GpuDirectRoute::peer_memory, std::move(peer_memory)},
                   {GpuDirectRoute::libfabric, std::move(libfabric)}};
  return report;
}

const GpuDirectReport& gpu_direct() {
  static const auto& report = *new GpuDirectReport{detect_gpu_direct()};
  return report;
}

}  // namespace capstan
