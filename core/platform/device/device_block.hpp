// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "capstan/quantity.hpp"
#include "core/platform/device/device_memory.hpp"
#include "core/platform/memory/pinned_memory.hpp"

namespace capstan {

/// Memory of a device for Capstan's own use. Released with this object.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  /// `shared`: other devices access it while kernels run. Arbitrary contents. Throws SystemError.
  DeviceBlock(const DeviceBuffer& where, Bytes size, bool shared = false);
  DeviceBlock(DeviceBlock&& other) noexcept { swap(other); }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept {
    DeviceBlock{std::move(other)}.swap(*this);
    return *this;
  }
  ~DeviceBlock();

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }
  /// It is never released: a kernel may still use it.
  void keep_for_good() { data_ = nullptr; }

 private:
  void swap(DeviceBlock& other) noexcept {
    std::swap(where_, other.where_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  DeviceBuffer where_{};
  std::byte* data_ = nullptr;
  Bytes size_{};
};

/// Makes blocks of one place, and fills them by a stream of its own. Not thread-safe.
class DeviceBlocks {
 public:
  /// `timeout`: of a copy. Throws SystemError.
  DeviceBlocks(const DeviceBuffer& where, std::chrono::milliseconds timeout);
  DeviceBlocks(const DeviceBlocks&) = delete;
  ~DeviceBlocks();

  /// They return when the block is filled. They throw SystemError, also when that takes too long.
  DeviceBlock zeros(Bytes size) { return cleared({where_, size}, size, size); }
  /// Memory that other devices access while kernels run, with zeros in the first bytes of each part
  /// of it; the rest is arbitrary.
  DeviceBlock segment(Bytes size, Bytes part, Bytes first) {
    return cleared({where_, size, true}, part, first);
  }
  DeviceBlock image(std::span<const std::byte> bytes);

  /// Page-locked host memory that the device reaches.
  PinnedMemory& pinned() { return pinned_; }
  /// The place, with the context that its streams have.
  const DeviceBuffer& where() const { return where_; }

 private:
  DeviceBlock cleared(DeviceBlock block, Bytes part, Bytes first);
  void finish(DeviceBlock& block);

  const DeviceBuffer asked_;  ///< the place as the caller knows it
  DeviceBuffer where_;
  const std::chrono::milliseconds timeout_;
  PinnedMemory pinned_;
  void* stream_ = nullptr;
};

}  // namespace capstan
