// SPDX-License-Identifier: Apache-2.0
#include "transports/common/registered_sources.hpp"

#include "capstan/error.hpp"

namespace capstan {
namespace {

AddressRange range_of(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  return {begin, begin + bytes.size()};
}

}  // namespace

RegisteredSources::RegisteredSources(Registrar& registrar, Limits limits)
    : registrar_(registrar), limits_(limits) {}

RegistrationCache& RegisteredSources::cache() {
  if (!cache_) cache_.emplace(registrar_, limits_);
  return *cache_;
}

// Keys of the last call are dropped: unwatched memory may be other memory by now.
void RegisteredSources::announce(std::span<const std::byte> input,
                                 std::span<const std::byte> output) {
  announced_[0] = {range_of(input), nullptr};
  announced_[1] = {range_of(output), nullptr};
}

std::shared_ptr<const MemoryKeys> RegisteredSources::acquire(const void* from, Bytes length) {
  const AddressRange wanted = address_range(from, length, "push_from");
  for (Announced& buffer : announced_) {
    if (!buffer.range.contains(wanted)) continue;
    if (buffer.keys) return buffer.keys;
    if (buffer.range.size() > limits_.bytes) break;  // too long: each piece is registered alone
    return buffer.keys = lease(buffer.range);
  }
  return lease(wanted);
}

std::shared_ptr<const MemoryKeys> RegisteredSources::lease(AddressRange range) {
  struct Held {
    RegistrationCache::Lease lease;
  };
  try {
    auto held = std::make_shared<Held>(cache().acquire(range.data(), range.size()));
    return {held, &held->lease.keys()};
  } catch (const LimitReached&) {  // the cache is full of leases; the device may have room
    return register_for_one_use(range);
  }
}

std::shared_ptr<const MemoryKeys> RegisteredSources::register_for_one_use(AddressRange range) {
  const AddressRange units = rounded_out(range, page_size());
  const auto deregister = [registrar = &registrar_](const MemoryKeys* keys) {
    registrar->deregister_memory(*keys);
    delete keys;
  };
  return {new MemoryKeys{registrar_.register_memory(units)}, deregister};
}

void RegisteredSources::forget(const void* data, Bytes length) {
  if (cache_) cache_->invalidate(data, length);
}

RegistrationCache::Statistics RegisteredSources::statistics() const {
  return cache_ ? cache_->statistics() : RegistrationCache::Statistics{};
}

}  // namespace capstan
