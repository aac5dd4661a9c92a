// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "capstan/error.hpp"
#include "core/platform/memory/registration/registration_cache.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// Memory that a peer may read as long as its registration lives, which ends under the transport's
/// lock.
class ExposedRegistration final : public ExposedMemory {
 public:
  /// `forget` has the transport keep no such registration any longer than its uses. It and the lock
  /// outlive this object.
  ExposedRegistration(std::mutex& lock, const void* data, std::shared_ptr<const MemoryKeys> keys,
                      std::function<void()> forget)
      : lock_(lock),
        address_(reinterpret_cast<std::uintptr_t>(data) - keys->origin),
        key_(keys->remote),
        keys_(std::move(keys)),
        forget_(std::move(forget)) {}
  ~ExposedRegistration() override {
    const std::scoped_lock lock{lock_};
    keys_.reset();
  }

  std::uint64_t address() const override { return address_; }
  std::uint64_t key() const override { return key_; }
  void revoke() override {
    const std::scoped_lock lock{lock_};
    forget_();
    keys_.reset();
  }

 private:
  std::mutex& lock_;
  const std::uint64_t address_, key_;
  std::shared_ptr<const MemoryKeys> keys_;
  const std::function<void()> forget_;
};

/// Exposes what `registered()` returns the keys of. Null where it returns none or throws an Error,
/// as without room for a registration: the data go another way then. Called under the lock.
template <class Registered>
std::unique_ptr<ExposedMemory> expose_registered(std::mutex& lock, const void* data,
                                                 const Registered& registered,
                                                 std::function<void()> forget) {
  try {
    std::shared_ptr<const MemoryKeys> keys = registered();
    if (!keys || keys->remote == 0) return nullptr;
    return std::make_unique<ExposedRegistration>(lock, data, std::move(keys), std::move(forget));
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace capstan
