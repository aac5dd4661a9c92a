// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "core/platform/memory/registration/registration_cache.hpp"

namespace capstan {

/// Registers memory of callers with one device, which sends pushes from it, or reads into it.
///
/// Memory stays registered between calls as far as RegistrationCache can keep it, up to the cache's
/// limit; beyond that, only while it is in use. An announced buffer is registered as a whole when a
/// part of it is first used, so that an operation that is cut into pieces registers it once.
///
/// Not thread-safe, including the release of what acquire() returned.
class RegisteredSources {
 public:
  using Limits = RegistrationCache::Limits;

  /// `registrar` outlives this object, which outlives all that acquire() returned. Costs nothing
  /// until used.
  RegisteredSources(Registrar& registrar, Limits limits);

  /// See Transport::announce_sources.
  void announce(std::span<const std::byte> input, std::span<const std::byte> output);

  /// The keys of a registration that covers the range while the result lives. Throws
  /// InvalidArgument for memory that the device cannot register, such as a read-only shared mapping
  /// before Linux 6.2: the caller then sends a copy. Otherwise throws what the registrar throws.
  std::shared_ptr<const MemoryKeys> acquire(const void* from, Bytes length);

  /// Keeps no registration of this memory any longer than its uses.
  void forget(const void* data, Bytes length);

  RegistrationCache::Statistics statistics() const;

 private:
  struct Announced {
    AddressRange range;
    std::shared_ptr<const MemoryKeys> keys;  // once used
  };

  RegistrationCache& cache();
  std::shared_ptr<const MemoryKeys> lease(AddressRange range);
  std::shared_ptr<const MemoryKeys> register_for_one_use(AddressRange range);

  Registrar& registrar_;
  const Limits limits_;
  std::optional<RegistrationCache>
      cache_;  // made when first needed, as its monitor starts a thread
  std::array<Announced, 2> announced_;
};

}  // namespace capstan
