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

bool contains(const DeviceAllocation& allocation, const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address >= allocation.begin && address - allocation.begin < allocation.bytes;
}

}  // namespace

GpuDirectFunctions& DeviceRegions::functions() {
  if (functions_) return *functions_;
  functions_ =
      load_gpu_direct(use_ == GpuDirectUse::detect ? report_of_cards() : GpuDirectReport{});
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
  drop_one_that_is_gone();
  DeviceAllocation allocation;
  const auto known = find(data);
  const bool has_identity = buffer->driver->allocation_of(data, allocation) == 0;
  if (known != regions_.end()) {
    if (has_identity && known->allocation.identity == allocation.identity) {
      regions_.splice(regions_.begin(), regions_, known);
      return known->keys;
    }
    regions_.erase(known);
  }
  if (!has_identity)
    return make(*buffer->driver, reinterpret_cast<std::uintptr_t>(data), size.value());
  Keys keys = make(*buffer->driver, allocation.begin, allocation.bytes);
  if (!keys) return nullptr;
  regions_.push_front({buffer->driver, allocation, keys});
  if (regions_.size() > most) regions_.pop_back();
  return keys;
}

/// Null where the card refuses the memory.
DeviceRegions::Keys DeviceRegions::make(DeviceDriver& driver, std::uintptr_t begin,
                                        std::size_t bytes) {
  functions().export_pages = [&driver](const void* pages, std::size_t size, int& descriptor) {
    return driver.export_dma_buf(pages, size, descriptor);
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
      regions_, [&](const Region& region) { return contains(region.allocation, data); });
}

void DeviceRegions::forget(const void* data) {
  if (const auto known = find(data); known != regions_.end()) regions_.erase(known);
}

/// A registration keeps memory that the program has freed. So the one that was not used for the
/// longest time is looked at.
void DeviceRegions::drop_one_that_is_gone() {
  if (regions_.size() < 2) return;
  const Region& oldest = regions_.back();
  DeviceAllocation now;
  const auto* const begin = reinterpret_cast<const void*>(oldest.allocation.begin);
  if (oldest.driver->allocation_of(begin, now) != 0 || now.identity != oldest.allocation.identity)
    regions_.pop_back();
}

}  // namespace capstan::verbs
