// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "core/platform/device/device_memory.hpp"
#include "core/platform/memory/registration/registration_cache.hpp"

namespace capstan {

/// Registrations of memory of devices with one network card, kept between messages.
///
/// An allocation is registered as a whole. It is known by its address and by the identity that the
/// driver gives it, so that other memory at the same address is never taken for it. Where the
/// driver tells no identity, memory is registered for one use. An allocation that the card has
/// refused is known, too, and not tried again. Not thread-safe, including the release of what
/// acquire() returned.
class DeviceRegions {
 public:
  using Keys = std::shared_ptr<const MemoryKeys>;
  /// Registers memory of one place as long as the result lives. Null where the card refuses it.
  using Register = std::function<Keys(const DeviceBuffer& where, AddressRange memory)>;

  /// The most allocations that stay known.
  static constexpr std::size_t most = 64;

  explicit DeviceRegions(Register register_memory) : register_(std::move(register_memory)) {}

  /// The keys of a registration that covers the memory while the result lives. Null where the card
  /// cannot reach it: it has to be staged.
  Keys acquire(const void* data, Bytes size);
  /// Drops the registration of the allocation that contains this address. It ends with its last
  /// use.
  void forget(const void* data);

 private:
  struct Region {
    DeviceDriver* driver;
    DeviceAllocation allocation;
    Keys keys;  // null: the card has refused it
  };
  using Regions = std::list<Region>;

  Regions::iterator find(const void* data);
  void drop_those_that_are_gone();

  const Register register_;
  Regions regions_;  // the last used first
};

}  // namespace capstan
