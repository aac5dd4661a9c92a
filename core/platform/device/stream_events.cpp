// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/stream_events.hpp"

#include <algorithm>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"

namespace capstan {

void StreamEvent::record(void* stream) const {
  at_place(at, "recording an event",
           [&](DeviceDriver& driver) { return driver.record(handle, stream); });
}

bool StreamEvent::has_come() const {
  int state = 0;
  at_place(at, "waiting for a stream", [&](DeviceDriver& driver) {
    state = driver.query_event(handle);
    return state == DeviceDriver::not_ready ? 0 : state;
  });
  return state == 0;
}

bool StreamEvent::comes(Deadline deadline) const {
  for (;; std::this_thread::sleep_for(std::chrono::microseconds{50})) {
    try {
      if (has_come()) return true;
    } catch (const Error&) {
      return true;
    }
    if (deadline.expired()) return false;
  }
}

std::chrono::nanoseconds elapsed(const StreamEvent& from, const StreamEvent& to) {
  float milliseconds = 0;
  at_place(to.at, "timing a stream", [&](DeviceDriver& driver) {
    return driver.elapsed(from.handle, to.handle, milliseconds);
  });
  return std::chrono::nanoseconds{static_cast<std::int64_t>(milliseconds * 1e6)};
}

StreamEvents::~StreamEvents() {
  for (const StreamEvent& event : idle_) {
    try {
      at_place(event.at, "releasing an event",
               [&](DeviceDriver& driver) { return driver.release_event(event.handle); });
    } catch (const Error&) {  // a lost device has none any more
    }
  }
}

StreamEvent StreamEvents::take(const DeviceBuffer& at, bool timed) {
  const auto found = std::ranges::find_if(idle_, [&](const StreamEvent& event) {
    return event.at.driver == at.driver && event.at.place == at.place && event.timed == timed;
  });
  StreamEvent event{.at = at, .timed = timed};
  if (found != idle_.end()) {
    event = *found;
    idle_.erase(found);
  } else {
    at_place(at, "making an event",
             [&](DeviceDriver& driver) { return driver.make_event(event.handle, timed); });
  }
  return event;
}

}  // namespace capstan
