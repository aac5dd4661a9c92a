// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "transports/common/device_regions.hpp"
#include "transports/common/registered_sources.hpp"
#include "transports/ofi/ofi_endpoint.hpp"
#include "transports/ofi/ofi_transport.hpp"

namespace capstan::ofi {

/// Registers memory of callers with one endpoint, for one kind of access.
class CallerRegistrar final : public Registrar {
 public:
  /// `access` as for fi_mr_reg(3).
  CallerRegistrar(OfiEndpoint& endpoint, std::uint64_t access)
      : endpoint_(endpoint), access_(access) {}
  MemoryKeys register_memory(AddressRange range) override {
    return endpoint_.register_callers(range, access_);
  }
  void deregister_memory(const MemoryKeys& keys) noexcept override {
    OfiEndpoint::deregister(keys);
  }

 private:
  OfiEndpoint& endpoint_;
  const std::uint64_t access_;
};

/// Memory of callers that one endpoint uses. It stays registered between uses. Exposed memory has
/// registrations of its own: an announcement of a former call must not be taken for it. Not
/// thread-safe, including the release of keys.
class CallerMemory {
 public:
  using Keys = std::shared_ptr<const MemoryKeys>;

  /// `reads`: whether the endpoint reads remote memory.
  CallerMemory(OfiEndpoint& endpoint, const OfiOptions& options, bool reads);

  /// For pushes.
  RegisteredSources& sources() { return sources_; }

  /// Whether the network card may reach memory of devices. The first call may detect what the
  /// machine has, which takes up to seconds.
  bool reaches_devices();
  /// The keys by which peers read this memory. Null where the provider cannot reach the device.
  /// Throws InvalidArgument and SystemError.
  Keys expose(const void* data, Bytes size, MemoryKind kind);
  /// The keys for reads into this memory; null where none are needed. Nothing where the provider
  /// cannot reach the device. Throws as above.
  std::optional<Keys> target(void* to, Bytes size, MemoryKind kind);
  /// Keeps no registration of exposed memory any longer than its uses.
  void forget(const void* data, Bytes size, MemoryKind kind);

 private:
  Keys on_device(const void* data, Bytes size);
  Keys register_device(const DeviceBuffer& where, AddressRange memory);

  OfiEndpoint& endpoint_;
  const GpuDirectUse gpu_direct_;
  const bool reads_;
  CallerRegistrar source_registrar_, exposed_registrar_, target_registrar_;
  RegisteredSources sources_, exposed_, targets_;
  DeviceRegions devices_;
};

}  // namespace capstan::ofi
