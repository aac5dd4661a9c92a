// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/emulation/machine.hpp"

namespace capstan::kernels::device {

/// The stores of a block that others do not see yet.
class DelayedStores {
 public:
  void put(void* to, const void* from, std::size_t size) {
    const std::lock_guard lock{mutex_};
    for (std::size_t i = 0; i < size; ++i)
      bytes_[static_cast<std::byte*>(to) + i] = static_cast<const std::byte*>(from)[i];
  }
  void get(void* to, const void* from, std::size_t size) {
    const std::lock_guard lock{mutex_};
    for (std::size_t i = 0; i < size; ++i) {
      const auto* const at = static_cast<const std::byte*>(from) + i;
      const auto stored = bytes_.find(const_cast<std::byte*>(at));
      static_cast<std::byte*>(to)[i] = stored == bytes_.end() ? *at : stored->second;
    }
  }
  void show() {
    const std::lock_guard lock{mutex_};
    for (const auto& [at, value] : bytes_) *at = value;
    bytes_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::byte> bytes_;
};

/// The weakest device: stores are seen by the block at once, by others only after a release, or
/// when the kernel has ended (show()). Without this the processor's own order would hide that a
/// release is missing.
class DelayedMachine : public EmulatedMachine<4> {
 public:
  DelayedMachine(const EmulatedMachine<4>& machine, DelayedStores& stores, bool releases = true)
      : EmulatedMachine<4>(machine), stores_(stores), releases_(releases) {}

  template <class Word>
  Word load(const Word* from) const {
    Word value;
    stores_.get(&value, from, sizeof value);
    return value;
  }
  template <class Word>
  void store(Word* to, const Word& value) const {
    stores_.put(to, &value, sizeof value);
  }
  void release() const {
    if (!releases_) return;  // a fault, planted to be found
    stores_.show();
    EmulatedMachine<4>::release();
  }
  void hand_over() const { release(); }

 private:
  DelayedStores& stores_;
  const bool releases_;
};

}  // namespace capstan::kernels::device
