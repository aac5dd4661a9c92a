#include "transports/verbs/device_regions.hpp"

#include <algorithm>
#include <utility>

#include "core/device/gpu_direct_probes.hpp"

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

bool covers(const DeviceAllocation& allocation, const void* data, Bytes size) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const AddressRange whole{allocation.begin, allocation.begin + allocation.bytes};
  return whole.contains({address, address + size.value()});
}

}  // namespace

GpuDirectFunctions& DeviceRegions::functions() {
  if (functions_) return *functions_;
  GpuDirectReport report;
  if (use_ == GpuDirectUse::detect)
    report = report_of_cards();
  else if (device_driver("HIP"))
    report.vendor = GpuVendor::amd;
  functions_ = load_gpu_direct(report);
  functions_->reg_mr = &::ibv_reg_mr;
  functions_->reg_dmabuf_mr = &::ibv_reg_dmabuf_mr;
  functions_->dereg_mr = &::ibv_dereg_mr;
  if (use_ == GpuDirectUse::always)
    functions_->dma_buf_obstacle = functions_->peer_memory_obstacle = {};
  return *functions_;
}

bool DeviceRegions::open() {
  return use_ != GpuDirectUse::never &&
         (functions().dma_buf_obstacle.empty() || functions().peer_memory_obstacle.empty());
}

std::shared_ptr<const MemoryKeys> DeviceRegions::acquire(const void* data, Bytes size) {
  if (!open()) return nullptr;
  const auto buffer = find_device_buffer(data);
  if (!buffer) return nullptr;
  DeviceAllocation allocation;
  if (buffer->driver->allocation_of(data, allocation) != 0 || !covers(allocation, data, size))
    return make(*buffer, reinterpret_cast<std::uintptr_t>(data), size.value());
  const auto known = find(data);
  if (known != regions_.end() && known->allocation.identity == allocation.identity) {
    regions_.splice(regions_.begin(), regions_, known);
    return known->keys;
  }
  drop_those_that_are_gone();
  Keys keys = make(*buffer, allocation.begin, allocation.bytes);
  if (!keys) return nullptr;
  regions_.push_front({buffer->driver, allocation, keys});
  if (regions_.size() > most) regions_.pop_back();
  return keys;
}

/// Null where the card refuses the memory.
DeviceRegions::Keys DeviceRegions::make(const DeviceBuffer& where, std::uintptr_t begin,
                                        std::size_t bytes) {
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
      Held{register_device_memory(functions(), domain_, {begin, bytes},
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
           {}});
  ibv_mr* const region = held->registration.region();
  if (!region) return nullptr;
  held->keys = {.handle = region, .local = region->lkey, .remote = region->rkey};
  return {held, &held->keys};
}

DeviceRegions::Regions::iterator DeviceRegions::find(const void* data) {
  return std::ranges::find_if(
      regions_, [&](const Region& region) { return covers(region.allocation, data, Bytes{1}); });
}

void DeviceRegions::forget(const void* data) {
  if (const auto known = find(data); known != regions_.end()) regions_.erase(known);
}

/// A registration keeps memory that the program has freed.
void DeviceRegions::drop_those_that_are_gone() {
  std::erase_if(regions_, [](const Region& region) {
    DeviceAllocation now;
    const auto* const begin = reinterpret_cast<const void*>(region.allocation.begin);
    return region.driver->allocation_of(begin, now) != 0 ||
           now.identity != region.allocation.identity;
  });
}

}  // namespace capstan::verbs
