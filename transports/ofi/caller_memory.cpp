// SPDX-License-Identifier: Apache-2.0
#include "transports/ofi/caller_memory.hpp"

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"

namespace capstan::ofi {

CallerMemory::CallerMemory(OfiEndpoint& endpoint, const OfiOptions& options, bool reads)
    : endpoint_(endpoint),
      gpu_direct_(options.gpu_direct),
      reads_(reads),
      source_registrar_(endpoint, FI_SEND | FI_WRITE),
      exposed_registrar_(endpoint, FI_REMOTE_READ),
      target_registrar_(endpoint, FI_READ),
      sources_(source_registrar_, {.bytes = options.cached_sources}),
      exposed_(exposed_registrar_, {.bytes = options.cached_sources}),
      targets_(target_registrar_, {.bytes = options.cached_sources}),
      devices_([this](const DeviceBuffer& where, AddressRange memory) {
        return register_device(where, memory);
      }) {}

bool CallerMemory::reaches_devices() {
  if (!reads_ || !endpoint_.takes_device_memory()) return false;
  if (gpu_direct_ != GpuDirectUse::detect) return gpu_direct_ == GpuDirectUse::always;
  return gpu_direct().find(GpuDirectRoute::libfabric)->available();
}

CallerMemory::Keys CallerMemory::on_device(const void* data, Bytes size) {
  return reaches_devices() ? devices_.acquire(data, size) : nullptr;
}

/// Null where the provider refuses the memory.
CallerMemory::Keys CallerMemory::register_device(const DeviceBuffer& where, AddressRange memory) {
  const bool cuda = where.driver->name() == "CUDA";
  const HmemPlace place{cuda ? FI_HMEM_CUDA : FI_HMEM_ROCR, where.place.device};
  int former = 0;
  if (where.driver->enter(where.place, former) != 0) return nullptr;
  std::optional<MemoryKeys> keys;
  try {
    keys = endpoint_.register_callers(memory, FI_READ | FI_REMOTE_READ, place);
  } catch (const Error& error) {
    log().debug("ofi: memory of a device is staged: {}", error.what());
  }
  where.driver->leave(former);
  if (!keys) return nullptr;
  const auto deregister = [](const MemoryKeys* registered) {
    OfiEndpoint::deregister(*registered);
    delete registered;
  };
  return {new MemoryKeys{*keys}, deregister};
}

CallerMemory::Keys CallerMemory::expose(const void* data, Bytes size, MemoryKind kind) {
  return kind == MemoryKind::device ? on_device(data, size) : exposed_.acquire(data, size);
}

std::optional<CallerMemory::Keys> CallerMemory::target(void* to, Bytes size, MemoryKind kind) {
  if (kind == MemoryKind::host)
    return endpoint_.needs_local_registration() ? targets_.acquire(to, size) : nullptr;
  Keys keys = on_device(to, size);
  return keys ? std::optional{std::move(keys)} : std::nullopt;
}

void CallerMemory::forget(const void* data, Bytes size, MemoryKind kind) {
  if (kind == MemoryKind::device)
    devices_.forget(data);
  else
    exposed_.forget(data, size);
}

}  // namespace capstan::ofi
