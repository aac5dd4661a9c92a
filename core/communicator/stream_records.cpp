// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/stream_records.hpp"

#include <algorithm>
#include <optional>

#include "capstan/error.hpp"
#include "core/communicator/background.hpp"
#include "core/platform/device/relaxed_capture.hpp"

namespace capstan {

using namespace std::chrono_literals;

void StreamRecords::add(Entry entry) {
  {
    const std::lock_guard lock{mutex_};
    entries_.push_back(std::make_shared<const Entry>(std::move(entry)));
    if (std::exchange(asks_, true)) return;
  }
  Background::of_process().add(
      Clock::now(), [self = shared_from_this()]() -> std::optional<Clock::duration> {
        return self->record_ended() ? std::nullopt : std::optional<Clock::duration>{1ms};
      });
}

bool StreamRecords::empty() const {
  const std::lock_guard lock{mutex_};
  return entries_.empty();
}

void StreamRecords::clear() {
  const std::lock_guard lock{mutex_};
  entries_.clear();
  last_ = {};
}

/// True: all have been recorded. Calls end in their order. The driver is asked without the lock.
bool StreamRecords::record_ended() {
  for (;;) {
    std::shared_ptr<const Entry> first;
    {
      const std::lock_guard lock{mutex_};
      if (entries_.empty()) return asks_ = false, true;
      first = entries_.front();
    }
    const RelaxedCapture relaxed{*first->begins->at.driver};
    bool failed = false;
    try {
      if (!first->end->has_passed()) return false;
    } catch (const Error&) {  // the device is lost
      failed = true;
    }
    const Recorded last = record(*first, failed || first->end->error());
    first.reset();
    const std::lock_guard lock{mutex_};
    if (entries_.empty()) continue;  // they have been forgotten
    last_ = last;
    entries_.pop_front();
  }
}

/// Durations are the device's. The host sees an end late, by a pause of the thread that asks at
/// most, and never early. So the end is the earlier one of what the host sees and of what follows
/// from the end of the call before, which makes the error that of the luckiest look. The two clocks
/// drift apart: what follows is not used where it lies far behind.
StreamRecords::Recorded StreamRecords::record(const Entry& entry, bool failed) const {
  constexpr auto latest_look = 10ms;
  const auto now = Clock::now();
  const SharedEvent& event = entry.end->event();
  auto began = entry.put, ended = now;
  try {
    if (last_.end) {
      const auto follows = last_.time + elapsed(*last_.end, *event);
      if (now - follows < latest_look) ended = std::min(now, follows);
    }
    began = ended - elapsed(*entry.begins, *event);
  } catch (const Error&) {  // a lost device, or a driver without times: what the host has seen
  }
  entry.profile->record({.operation = entry.operation,
                         .bytes = entry.bytes,
                         .began = began,
                         .ended = ended,
                         .algorithm = entry.way,
                         .failed = failed});
  return {event, ended};
}

}  // namespace capstan
