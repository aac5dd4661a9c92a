// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "capstan/tensor.hpp"
#include "core/extras/backends/device_runtime.hpp"

namespace capstan {

/// Contiguous host memory for the elements of a tensor: pinned, where the tensor lies on a device.
class PackedElements {
 public:
  /// `runtime` of the tensor's device; null for a tensor that the host can access.
  PackedElements(const TensorView& tensor, std::shared_ptr<DeviceRuntime> runtime);

  std::byte* data() const { return memory_.get(); }
  /// Between the tensor, or a part of it, and this memory.
  void copy(const TensorView& to, const TensorView& from) const;

 private:
  std::shared_ptr<std::byte> memory_;
  std::shared_ptr<DeviceRuntime> runtime_;
  int device_;
};

inline bool is_on_device(const TensorView& tensor) {
  return tensor.device.type == DeviceType::cuda || tensor.device.type == DeviceType::rocm;
}

}  // namespace capstan
