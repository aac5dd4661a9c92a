// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/engine/messages/messages.hpp"
#include "core/engine/run/task.hpp"
#include "core/platform/device/device_memory.hpp"
#include "core/platform/memory/pinned_memory.hpp"

namespace capstan {

/// "rank 1: all_reduce(1000 x f32, sum)".
std::string call_of(int rank, const std::string& call);

/// Replaces buffers of collectives and of messages that lie on devices by pinned host memory. Data
/// to be sent are read when the call is started. Results are written only when it has succeeded.
///
/// One object for a rank's world and all groups made from it. Thread-safe. `call` names the rank
/// and the call in errors: see call_of().
class DeviceStaging {
 public:
  DeviceStaging(Bytes limit, std::chrono::milliseconds timeout)
      : limit_(limit), timeout_(timeout) {}

  /// Replaces those buffers of a task that lie on a device. Throws LimitReached, SystemError.
  void stage(Task& task, int rank);
  /// The same for a message. Data to be sent have been read when it returns.
  void stage(Messages::MessageTransfer& message, const std::string& call);
  /// The same, but not before hardware turns out not to move the message from or to the device.
  /// This object lives as long as the message is under way.
  void stage_if_needed(Messages::MessageTransfer& message, const std::string& call);

  /// Memory that devices of the vendor of `on_device` reach at full speed. Throws LimitReached,
  /// SystemError.
  std::shared_ptr<std::byte> pinned(Bytes size, const std::string& call, const void* on_device);
  /// For copies between this memory and devices.
  Transfer transfer(std::string call, std::shared_ptr<void> host_memory) const {
    return {std::move(call), std::move(host_memory), timeout_};
  }

 private:
  static bool flush_after_read(Messages::MessageTransfer& message, const std::string& call);
  PinnedMemory& memory(const void* on_device);
  void stage(Task& task, const std::string& call, bool input, bool output);

  const Bytes limit_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<DeviceDriver*, PinnedMemory> memory_;  // made when first needed: it initialises drivers
};

}  // namespace capstan
