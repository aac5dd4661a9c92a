// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "capstan/gpu_direct.hpp"
#include "core/platform/device/device_memory.hpp"
#include "core/platform/device/device_registration.hpp"
#include "core/platform/memory/registration/registration_cache.hpp"
#include "transports/verbs/handles.hpp"

namespace capstan::verbs {

/// Registers memory of devices with one network card. Not thread-safe.
class DeviceRegistrar {
 public:
  DeviceRegistrar(ibv_pd* domain, GpuDirectUse use) : domain_(domain), use_(use) {}

  /// Whether cards may reach memory of devices here. The first call may detect what the machine
  /// has, which takes up to seconds.
  bool open();
  /// Registers memory of one place as long as the result lives. Null where the card refuses it.
  std::shared_ptr<const MemoryKeys> register_memory(const DeviceBuffer& where, AddressRange memory);

 private:
  GpuDirectFunctions& functions();

  ibv_pd* const domain_;
  const GpuDirectUse use_;
  std::optional<GpuDirectFunctions> functions_;
};

}  // namespace capstan::verbs
