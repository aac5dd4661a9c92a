// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "capstan/pinned_memory.hpp"
#include "core/platform/device/gpu_page_locker.hpp"
#include "core/platform/memory/pinned_memory.hpp"

namespace capstan {
namespace {

/// The elements from the first to the last in memory.
Elements extent_of(const TensorView& tensor) {
  if (tensor.strides.empty() || tensor.count() == Elements{0}) return tensor.count();
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.strides[i] < 0)
      throw InvalidArgument(fmt::format(
          "pin({}): stride {} of dimension {}: pin tensors whose strides are not negative",
          to_string(tensor), tensor.strides[i], i));
    last += static_cast<std::uint64_t>(tensor.shape[i] - 1) *
            static_cast<std::uint64_t>(tensor.strides[i]);
  }
  return Elements{last + 1};
}

}  // namespace

struct PinnedMemoryManager::State {
  explicit State(Bytes limit) : memory(make_page_locker(), limit) {}
  PinnedMemory memory;
};

struct PinnedMemoryManager::Pinned {
  PinnedMemory::Handle handle;
};

PinnedMemoryManager::PinnedMemoryManager(Bytes limit) : state_(std::make_shared<State>(limit)) {}

PinnedMemoryManager::Handle PinnedMemoryManager::handle_of(Pinned pinned) {
  Handle handle;
  handle.bytes_ = pinned.handle.bytes();
  handle.pinned_ = std::make_shared<Pinned>(std::move(pinned));
  return handle;
}

PinnedMemoryManager::Handle PinnedMemoryManager::allocate(Bytes size) {
  return handle_of({state_->memory.allocate(size)});
}

PinnedMemoryManager::Handle PinnedMemoryManager::pin(void* address, Bytes length) {
  return handle_of({state_->memory.pin(address, length)});
}

PinnedMemoryManager::Handle PinnedMemoryManager::pin(const TensorView& tensor) {
  const bool on_host = tensor.device.type == DeviceType::cpu ||
                       tensor.device.type == DeviceType::cuda_host ||
                       tensor.device.type == DeviceType::rocm_host;
  if (!on_host)
    throw InvalidArgument(
        fmt::format("pin({}): the tensor is on a device: only memory of the host is pinned",
                    to_string(tensor)));
  return pin(tensor.data, bytes_of(extent_of(tensor), size_of(tensor.type)));
}

Bytes PinnedMemoryManager::limit() const {
  return state_->memory.limit();
}

PinnedMemoryManager::Statistics PinnedMemoryManager::statistics() const {
  const PinnedMemory::Statistics now = state_->memory.statistics();
  return {now.allocations, now.reuses, now.pins, now.evictions, now.pinned, now.unused, now.peak};
}

}  // namespace capstan
