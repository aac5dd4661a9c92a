// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transports/verbs/control_message.hpp"
#include "transports/verbs/device.hpp"
#include "transports/verbs/device_array.hpp"

namespace capstan::verbs {

/// The shared receive queue in which wakes and control messages of all peers arrive.
class ReceiveQueue {
 public:
  /// Room for `depth` arrivals, or as many as the device allows. Throws SystemError.
  ReceiveQueue(const Device& device, int depth);

  ibv_srq* queue() const { return queue_.get(); }
  int depth() const { return static_cast<int>(slots_.size()); }

  /// The bit of `wr_id` that marks completions of this queue.
  static constexpr std::uint64_t receive_mark = std::uint64_t{1} << 63;
  /// The bytes that a completion says have arrived, until the next replenish().
  std::span<const std::byte> take(const ibv_wc& completion);
  /// Gives free slots to the device. Throws SystemError.
  void replenish();

 private:
  DeviceArray<ControlMessage> slots_;
  SharedReceiveQueue queue_;
  std::vector<std::uint64_t> free_;  // slots that the device does not have
};

}  // namespace capstan::verbs
