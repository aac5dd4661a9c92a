// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/platform/device/device_memory.hpp"

namespace capstan {

/// An event of a place; null: none.
struct StreamEvent {
  /// Throws SystemError.
  static StreamEvent make(const DeviceBuffer& at, bool timed);

  DeviceBuffer at{};
  void* handle = nullptr;
  bool timed = false;

  explicit operator bool() const { return handle != nullptr; }
  /// In a stream of the place. Throws SystemError.
  void record(void* stream) const;
  /// A stream continues when the event has come as it was recorded last. Throws SystemError.
  void hold_up(void* stream) const;
  /// Whether it has come. Throws SystemError, for a lost device too.
  bool has_come() const;
  /// Whether it comes in time. A device that is lost lets everything pass.
  bool comes(Deadline deadline) const;
};

/// The device's time from one timed event to another, which both have come. Throws SystemError.
std::chrono::nanoseconds elapsed(const StreamEvent& from, const StreamEvent& to);

/// Events that are used again and again. Released with this object. Not thread-safe.
class StreamEvents {
 public:
  StreamEvents() = default;
  StreamEvents(const StreamEvents&) = delete;
  ~StreamEvents();

  /// One that is not in use. Throws SystemError.
  StreamEvent take(const DeviceBuffer& at, bool timed = false);
  /// The same as far as there is one.
  std::optional<StreamEvent> take_idle(const DeviceBuffer& at, bool timed);
  void give_back(const StreamEvent& event) {
    if (event) idle_.push_back(event);
  }

 private:
  std::vector<StreamEvent> idle_;
};

/// An event that goes back to its pool with the last one who has it.
using SharedEvent = std::shared_ptr<const StreamEvent>;

/// Events that several threads have. Thread-safe; as long as there are events of it, it stays.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  /// Throws SystemError.
  SharedEvent take(const DeviceBuffer& at, bool timed);

 private:
  void give_back(const StreamEvent& event);

  std::mutex mutex_;  // not held while a driver is asked
  StreamEvents events_;
};

}  // namespace capstan
