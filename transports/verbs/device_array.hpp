// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "capstan/quantity.hpp"
#include "transports/common/mapping.hpp"
#include "transports/verbs/handles.hpp"
#include "transports/verbs/pieces.hpp"

namespace capstan::verbs {

/// An array of zeros that the device may access. It has pages of its own: a child of fork() does
/// not get pages that a device uses (see ibv_fork_init), so nothing else must lie in them.
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  DeviceArray() = default;
  /// `access` as of ibv_reg_mr. Throws SystemError.
  DeviceArray(ibv_pd* domain, std::size_t size, int access)
      : memory_(Mapping::anonymous(Bytes{size * sizeof(T)})),
        size_(size),
        region_(pin(domain, memory_.data(), size * sizeof(T), access)) {}

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return reinterpret_cast<T*>(memory_.data())[i]; }
  /// Throws std::out_of_range.
  T& at(std::size_t i) {
    if (i >= size_) throw std::out_of_range("a slot that the device does not have");
    return (*this)[i];
  }
  /// The local key, for requests to the device.
  std::uint32_t key() const { return region_->lkey; }

 private:
  Mapping memory_;
  std::size_t size_ = 0;
  MemoryRegion region_;
};

}  // namespace capstan::verbs
