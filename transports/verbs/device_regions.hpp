#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "capstan/gpu_direct.hpp"
#include "core/device/device_memory.hpp"
#include "core/device/device_registration.hpp"
#include "core/memory/registration/registration_cache.hpp"
#include "transports/verbs/handles.hpp"

namespace capstan::verbs {

/// Registrations of memory of GPUs with one network card, kept between messages.
///
/// An allocation is registered as a whole. It is known by its address and by the identity that the
/// driver gives it, so that other memory at the same address is never taken for it. Where the
/// driver tells no identity, memory is registered for one use. Not thread-safe, including the
/// release of what acquire() returned.
class DeviceRegions {
 public:
  /// The most allocations that stay registered.
  static constexpr std::size_t most = 64;

  DeviceRegions(ibv_pd* domain, GpuDirectUse use) : domain_(domain), use_(use) {}

  /// Whether cards may reach memory of GPUs here. The first call may detect what the machine has,
  /// which takes up to seconds.
  bool open();
  /// The keys of a registration that covers the memory while the result lives. Null where the card
  /// cannot reach it: it has to be staged.
  std::shared_ptr<const MemoryKeys> acquire(const void* data, Bytes size);
  /// Drops the registration of the allocation that contains this address. It ends with its last
  /// use.
  void forget(const void* data);

 private:
  using Keys = std::shared_ptr<const MemoryKeys>;
  struct Region {
    DeviceDriver* driver;
    DeviceAllocation allocation;
    Keys keys;
  };
  using Regions = std::list<Region>;

  GpuDirectFunctions& functions();
  Keys make(const DeviceBuffer& where, std::uintptr_t begin, std::size_t bytes);
  Regions::iterator find(const void* data);
  void drop_those_that_are_gone();

  ibv_pd* const domain_;
  const GpuDirectUse use_;
  std::optional<GpuDirectFunctions> functions_;
  Regions regions_;  // the last used first
};

}  // namespace capstan::verbs
