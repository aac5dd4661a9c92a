#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "core/memory/registration/registration_cache.hpp"

namespace capstan {

/// Memory of callers that pushes are sent from, registered with one device.
///
/// It stays registered between calls as far as RegistrationCache can keep it, up to its limit;
/// beyond that, only as long as it is in use. Of a buffer that was announced the whole is
/// registered as soon as a part is used: so an operation that is cut into pieces registers it once.
///
/// One thread at a time, which goes for the end of what acquire() returned, too.
class RegisteredSources {
 public:
  using Limits = RegistrationCache::Limits;

  /// `registrar` outlives this, and this all that acquire() returned. Costs nothing until used.
  RegisteredSources(Registrar& registrar, Limits limits);

  /// See Transport::announce_sources.
  void announce(std::span<const std::byte> input, std::span<const std::byte> output);

  /// The keys of a registration that covers the range as long as the result lives. Throws
  /// InvalidArgument for memory that the device cannot have, such as a shared mapping that may only
  /// be read, before Linux 6.2: copy it. Otherwise throws what the registrar throws.
  std::shared_ptr<const MemoryKeys> acquire(const void* from, Bytes length);

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
  std::optional<RegistrationCache> cache_;  // made when first needed: it has a thread that watches
  std::array<Announced, 2> announced_;
};

}  // namespace capstan
