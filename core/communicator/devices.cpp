// SPDX-License-Identifier: Apache-2.0
#include "capstan/async/devices.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "capstan/error.hpp"
#include "core/communicator/stream_buffers.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/device_memory.hpp"
#include "core/platform/device/relaxed_capture.hpp"
#include "core/platform/device/stream_events.hpp"

namespace capstan {
namespace {

/// For a default stream the current place of the thread; nothing if there is none.
std::optional<DeviceBuffer> place_of(void* stream) {
  for (const char* name : {"CUDA", "HIP"}) {
    DeviceDriver* const driver = device_driver(name);
    DevicePlace place;
    if (driver && driver->place_of_stream(stream, place) == 0) return DeviceBuffer{driver, place};
  }
  return std::nullopt;
}

}  // namespace

bool has_device_driver() {
  look_for_devices();
  return devices_possible;
}

bool is_device_memory(const void* address) {
  return on_device(address);
}

int device_with(const void* memory) {
  const auto where = find_device_buffer(memory);
  return where ? where->place.device : -1;
}

bool is_default_stream(void* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

void wait_for_stream(void* stream, const void* memory) {
  const auto where = memory ? find_device_buffer(memory) : place_of(stream);
  if (!where && is_default_stream(stream)) return;
  if (!where) throw InvalidArgument(fmt::format("{} is no stream of a device", stream));
  refuse_captured("waiting for a stream", *where, stream);
  const RelaxedCapture relaxed{*where->driver};  // another one may be captured
  StreamEvents events;
  const StreamEvent event = events.take(*where);
  event.record(stream);
  events.give_back(event);  // released when this returns
  while (!event.has_come()) std::this_thread::sleep_for(std::chrono::microseconds{20});
}

void order_streams(void* first, void* last, const void* memory) {
  const auto where = find_device_buffer(memory);
  if (!where) throw InvalidArgument(fmt::format("{} is no memory of a device", memory));
  StreamEvents events;
  const StreamEvent event = events.take(*where);
  event.record(first);
  events.give_back(event);
  at_place(*where, "ordering streams",
           [&](DeviceDriver& driver) { return driver.wait_for_event(last, event.handle); });
}

}  // namespace capstan
