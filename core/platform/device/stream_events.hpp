// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/platform/device/device_memory.hpp"

namespace capstan {

/// An event of a place; null: none.
struct StreamEvent {
  DeviceBuffer at{};
  void* handle = nullptr;
  bool timed = false;

  explicit operator bool() const { return handle != nullptr; }
  /// In a stream of the place. Throws SystemError.
  void record(void* stream) const;
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
  void give_back(const StreamEvent& event) {
    if (event) idle_.push_back(event);
  }

 private:
  std::vector<StreamEvent> idle_;
};

}  // namespace capstan
