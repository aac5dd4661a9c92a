// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/packing.hpp"

#include <vector>

namespace capstan {
namespace {

std::shared_ptr<std::byte> host_memory(std::size_t bytes) {
  const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
  return {memory, memory->data()};
}

}  // namespace

PackedElements::PackedElements(const TensorView& tensor, std::shared_ptr<DeviceRuntime> runtime)
    : runtime_(std::move(runtime)), device_(tensor.device.index) {
  const std::size_t bytes = bytes_of(tensor.count(), size_of(tensor.type)).value();
  if (runtime_) runtime_->use(device_);
  memory_ = runtime_ ? runtime_->pinned(bytes) : host_memory(bytes);
}

void PackedElements::copy(const TensorView& to, const TensorView& from) const {
  if (!runtime_) return capstan::copy(to, from);
  runtime_->use(device_);
  capstan::copy(to, from, [this](void* target, const void* source, std::size_t bytes) {
    runtime_->copy(target, source, bytes);
  });
}

}  // namespace capstan
