// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/stream_events.hpp"

#include <algorithm>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"

namespace capstan {

StreamEvent StreamEvent::make(const DeviceBuffer& at, bool timed) {
  StreamEvent event{.at = at, .timed = timed};
  at_place(at, "making an event",
           [&](DeviceDriver& driver) { return driver.make_event(event.handle, timed); });
  return event;
}

void StreamEvent::record(void* stream) const {
  at_place(at, "recording an event",
           [&](DeviceDriver& driver) { return driver.record(handle, stream); });
}

void StreamEvent::hold_up(void* stream) const {
  at_place(at, "ordering streams",
           [&](DeviceDriver& driver) { return driver.wait_for_event(stream, handle); });
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
  const auto idle = take_idle(at, timed);
  return idle ? *idle : StreamEvent::make(at, timed);
}

std::optional<StreamEvent> StreamEvents::take_idle(const DeviceBuffer& at, bool timed) {
  const auto found = std::ranges::find_if(idle_, [&](const StreamEvent& event) {
    return event.at.driver == at.driver && event.at.place == at.place && event.timed == timed;
  });
  if (found == idle_.end()) return std::nullopt;
  const StreamEvent event = *found;
  idle_.erase(found);
  return event;
}

SharedEvent EventPool::take(const DeviceBuffer& at, bool timed) {
  std::optional<StreamEvent> event;
  {
    const std::lock_guard lock{mutex_};
    event = events_.take_idle(at, timed);
  }
  if (!event) event = StreamEvent::make(at, timed);
  return {new StreamEvent{*event}, [pool = shared_from_this()](const StreamEvent* last) {
            pool->give_back(*last);
            delete last;
          }};
}

void EventPool::give_back(const StreamEvent& event) {
  const std::lock_guard lock{mutex_};
  events_.give_back(event);
}

}  // namespace capstan
