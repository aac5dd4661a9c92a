// SPDX-License-Identifier: Apache-2.0
#include "transports/common/device_regions.hpp"

#include <algorithm>
#include <utility>

namespace capstan {
namespace {

bool covers(const DeviceAllocation& allocation, const void* data, Bytes size) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const AddressRange whole{allocation.begin, allocation.begin + allocation.bytes};
  return whole.contains({address, address + size.value()});
}

}  // namespace

DeviceRegions::Keys DeviceRegions::acquire(const void* data, Bytes size) {
  const auto buffer = find_device_buffer(data);
  if (!buffer) return nullptr;
  DeviceAllocation allocation;
  if (buffer->driver->allocation_of(data, allocation) != 0 || !covers(allocation, data, size))
    return register_(*buffer, address_range(data, size, "register memory of a device"));
  const auto known = find(data);
  if (known != regions_.end() && known->allocation.identity == allocation.identity) {
    regions_.splice(regions_.begin(), regions_, known);
    return known->keys;
  }
  drop_those_that_are_gone();
  Keys keys = register_(*buffer, {allocation.begin, allocation.begin + allocation.bytes});
  regions_.push_front({buffer->driver, allocation, keys});
  if (regions_.size() > most) regions_.pop_back();
  return keys;
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

}  // namespace capstan
