// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/platform/device/device_driver.hpp"

namespace capstan {

/// As long as this lives, the thread may allocate, copy and load modules though a stream of the
/// process is captured into a graph. Where the driver lacks the function, it captures nothing.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(DeviceDriver& driver) : driver_(driver) {
    relaxed_ = driver_.exchange_capture_mode(mode_) == 0;
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (relaxed_) driver_.exchange_capture_mode(mode_);
  }

 private:
  DeviceDriver& driver_;
  int mode_ = DeviceDriver::relaxed_capture;
  bool relaxed_ = false;
};

}  // namespace capstan
