// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "core/platform/device/device_memory.hpp"

namespace capstan {

/// Lanes of kernels that wait for kernels of other ranks. A lane is a thread block. All those of a
/// device have to run side by side, as one that has no multiprocessor keeps the others waiting for
/// ever. So this process reserves them: no device has more than it has multiprocessors.
/// Thread-safe.
class LaneReservation {
 public:
  /// Nothing if that many are not free.
  static std::optional<LaneReservation> of(const DeviceBuffer& where, int lanes,
                                           int multiprocessors);
  /// The lanes that this process has reserved on the device.
  static int reserved(const DeviceBuffer& where);

  LaneReservation(LaneReservation&& other) noexcept
      : where_(other.where_), lanes_(std::exchange(other.lanes_, 0)) {}
  LaneReservation& operator=(LaneReservation&& other) noexcept {
    std::swap(where_, other.where_);
    std::swap(lanes_, other.lanes_);
    return *this;
  }
  ~LaneReservation();

  int lanes() const { return lanes_; }
  /// They stay reserved: a kernel may still run.
  void keep_for_good() { lanes_ = 0; }

 private:
  LaneReservation(const DeviceBuffer& where, int lanes) : where_(where), lanes_(lanes) {}

  DeviceBuffer where_;
  int lanes_;
};

}  // namespace capstan
