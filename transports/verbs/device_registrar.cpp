// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/device_registrar.hpp"

#include "core/platform/device/gpu_direct_probes.hpp"
#include "transports/verbs/library.hpp"

namespace capstan::verbs {
namespace {

/// Detection loads libraries, which is spared where no card could use what it finds.
GpuDirectReport report_of_cards() {
  const SystemView here;
  Finding card = GpuDirectProbes{here}.network_card();
  if (card.ok) return gpu_direct();
  GpuDirectReport closed;
  for (const GpuDirectRoute route : {GpuDirectRoute::dma_buf, GpuDirectRoute::peer_memory})
    closed.routes.push_back({route, {card}});
  return closed;
}

}  // namespace

GpuDirectFunctions& DeviceRegistrar::functions() {
  if (functions_) return *functions_;
  GpuDirectReport report;
  if (use_ == GpuDirectUse::detect)
    report = report_of_cards();
  else if (device_driver("HIP"))
    report.vendor = GpuVendor::amd;
  functions_ = load_gpu_direct(report);
  functions_->reg_mr = library().reg_mr;
  functions_->reg_dmabuf_mr = library().reg_dmabuf_mr;
  functions_->dereg_mr = library().dereg_mr;
  if (use_ == GpuDirectUse::always)
    functions_->dma_buf_obstacle = functions_->peer_memory_obstacle = {};
  return *functions_;
}

bool DeviceRegistrar::open() {
  return use_ != GpuDirectUse::never &&
         (functions().dma_buf_obstacle.empty() || functions().peer_memory_obstacle.empty());
}

std::shared_ptr<const MemoryKeys> DeviceRegistrar::register_memory(const DeviceBuffer& where,
                                                                   AddressRange memory) {
  functions().export_pages = [&where](const void* pages, std::size_t size, int& descriptor) {
    int former = 0;
    if (const int error = where.driver->enter(where.place, former)) return error;
    const int error = where.driver->export_dma_buf(pages, size, descriptor);
    where.driver->leave(former);
    return error;
  };
  struct Held {
    DeviceRegistration registration;
    MemoryKeys keys;
  };
  auto held = std::make_shared<Held>(
      Held{register_device_memory(functions(), domain_, {memory.begin, memory.size().value()},
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
           {}});
  ibv_mr* const region = held->registration.region();
  if (!region) return nullptr;
  held->keys = {.handle = region, .local = region->lkey, .remote = region->rkey};
  return {held, &held->keys};
}

}  // namespace capstan::verbs
