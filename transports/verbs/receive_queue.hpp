#pragma once

#include <cstdint>
#include <vector>

#include "transports/verbs/device.hpp"
#include "transports/verbs/device_array.hpp"

namespace capstan::verbs {

/// What ranks tell each other beside data.
struct ControlMessage {
  enum class Kind : std::uint32_t {
    ready = 1,  // it can send, and knows that the receiver can
    ask,        // for the key of piece `piece` of the mirror at the receiver
    key,        // of piece `piece` of the mirror at the sender
    goodbye,    // its transport is being destroyed
  };
  Kind kind = Kind::ready;
  std::uint32_t key = 0;
  std::uint64_t piece = 0;
};

/// Where all peers' wakes and control messages arrive: one queue for all connections.
class ReceiveQueue {
 public:
  /// Room for `depth` arrivals, or as many as the device has. Throws SystemError.
  ReceiveQueue(const Device& device, int depth);

  ibv_srq* queue() const { return queue_.get(); }
  int depth() const { return static_cast<int>(slots_.size()); }

  /// `wr_id` of all that this queue completes has this bit.
  static constexpr std::uint64_t receive_mark = std::uint64_t{1} << 63;
  /// What has arrived with a completion, and makes room for the next.
  ControlMessage take(const ibv_wc& completion);
  /// Gives the device the room that take() has made. Throws SystemError.
  void replenish();

 private:
  DeviceArray<ControlMessage> slots_;
  SharedReceiveQueue queue_;
  std::vector<std::uint64_t> free_;  // slots that the device does not have
};

}  // namespace capstan::verbs
