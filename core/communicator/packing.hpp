// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/tensor.hpp"
#include "core/engine/run/device_staging.hpp"

namespace capstan {

/// Memory of a call into which tensors or buffers are packed: pinned if devices copy to or from it.
class Packing {
 public:
  /// No memory: the tensor travels as it is.
  Packing() = default;
  explicit Packing(Bytes size) {
    const auto memory = std::make_shared<std::vector<std::byte>>(size.value());
    memory_ = {memory, memory->data()};
  }
  /// For buffers on the device of one of them.
  Packing(DeviceStaging& staging, Bytes size, const std::string& call, const void* on_device)
      : memory_(staging.pinned(size, call, on_device)),
        transfer_(staging.transfer(call, memory_)),
        on_device_(true) {}

  explicit operator bool() const { return memory_ != nullptr; }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  std::byte* data() const { return memory_.get(); }
  bool on_device() const { return on_device_; }

  /// Calls `body` with a function that copies between this memory and packed buffers.
  template <class Body>
  void copy(const Body& body) const {
    DeviceCopies copies{transfer_};
    body([&](void* to, const void* from, std::size_t size) { copies.copy(to, from, size); });
    copies.finish();
  }

 private:
  std::shared_ptr<std::byte> memory_{};
  Transfer transfer_{};
  bool on_device_ = false;
};

inline Packing packing_for(DeviceStaging& staging, int rank, std::string_view call,
                           const TensorView& tensor) {
  const Bytes size = bytes_of(tensor.count(), size_of(tensor.type));
  if (tensor.count() == Elements{0} || !on_device(tensor.data)) return Packing{size};
  return {staging, size, call_of(rank, fmt::format("{} of {}", call, to_string(tensor))),
          tensor.data};
}

}  // namespace capstan
