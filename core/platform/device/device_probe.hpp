// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "core/platform/device/device_memory.hpp"

namespace capstan {

/// Notices that a device is lost, without waiting for its driver: a thread of its own asks, as the
/// driver may answer nobody while a program copies pageable memory or frees memory of the device.
/// Not thread-safe.
class DeviceProbe {
 public:
  /// Throws SystemError.
  explicit DeviceProbe(const DeviceBuffer& where);
  DeviceProbe(const DeviceProbe&) = delete;
  ~DeviceProbe();

  /// Asks again every second. Throws SystemError with the last answer, where that is an error.
  void look();

 private:
  struct Question;

  const DeviceBuffer where_;
  void* const stream_;
  const std::shared_ptr<Question> question_;
  std::chrono::steady_clock::time_point asked_;
};

}  // namespace capstan
