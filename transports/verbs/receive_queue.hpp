#pragma once

#include <cstdint>
#include <vector>

#include "transports/verbs/device.hpp"
#include "transports/verbs/device_array.hpp"

namespace capstan::verbs {

/// A message between two ranks beside data.
struct ControlMessage {
  enum class Kind : std::uint32_t {
    ready = 1,  // the sender is connected, and knows that the receiver is
    ask,        // requests the key of piece `piece` of the mirror at the receiver
    key,        // the key of piece `piece` of the mirror at the sender
    goodbye,    // the sender destroys its transport
  };
  Kind kind = Kind::ready;
  std::uint32_t key = 0;
  std::uint64_t piece = 0;
};

/// The shared receive queue in which wakes and control messages of all peers arrive.
class ReceiveQueue {
 public:
  /// Room for `depth` arrivals, or as many as the device allows. Throws SystemError.
  ReceiveQueue(const Device& device, int depth);

  ibv_srq* queue() const { return queue_.get(); }
  int depth() const { return static_cast<int>(slots_.size()); }

  /// The bit of `wr_id` that marks completions of this queue.
  static constexpr std::uint64_t receive_mark = std::uint64_t{1} << 63;
  /// The message of a completion. Its slot may then be given to the device again.
  ControlMessage take(const ibv_wc& completion);
  /// Gives free slots to the device. Throws SystemError.
  void replenish();

 private:
  DeviceArray<ControlMessage> slots_;
  SharedReceiveQueue queue_;
  std::vector<std::uint64_t> free_;  // slots that the device does not have
};

}  // namespace capstan::verbs
