// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/device_memory.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/net/own_process.hpp"

namespace capstan {
namespace {

/// The drivers found so far. They live as long as the process, as their libraries do.
std::array<std::atomic<DeviceDriver*>, 2> drivers{};

/// Unused streams. Each copy has a stream of its own, so that it waits for no other copy.
class Streams {
 public:
  /// Null if there is none: the caller makes one.
  void* take(const DeviceBuffer& at) {
    const std::lock_guard lock{mutex_};
    auto& idle = idle_[key(at)];
    if (idle.empty()) return nullptr;
    void* const stream = idle.back();
    idle.pop_back();
    return stream;
  }
  void give_back(const DeviceBuffer& at, void* stream) {
    const std::lock_guard lock{mutex_};
    idle_[key(at)].push_back(stream);
  }

 private:
  using Key = std::pair<DeviceDriver*, DevicePlace>;
  static Key key(const DeviceBuffer& at) { return {at.driver, at.place}; }

  std::mutex mutex_;
  std::map<Key, std::vector<void*>> idle_;
};

Streams& streams() {
  static auto& all = *new Streams;  // communicators may outlive static objects
  return all;
}

/// A forked child asks no driver before it makes a communicator of its own: drivers that its parent
/// has used do not work there.
class NoDevicesInChildren final : private ChangedByFork {
  void become_child() noexcept override { devices_possible = false; }
};

}  // namespace

void look_for_devices() {
  [[maybe_unused]] static auto* const never_destroyed = new NoDevicesInChildren;
  static std::mutex mutex;
  constexpr FoundDriver (*finders[])(const SystemView&) = {find_cuda_driver, find_hip_driver};
  const std::lock_guard lock{mutex};
  for (std::size_t i = 0; i < drivers.size(); ++i) {
    if (!drivers[i].load(std::memory_order_relaxed))
      drivers[i].store(finders[i]({}).driver.release(), std::memory_order_release);
    if (drivers[i].load(std::memory_order_relaxed)) devices_possible = true;
  }
}

std::string device_drivers() {
  std::string names;
  for (const auto& driver : drivers)
    if (const DeviceDriver* found = driver.load(std::memory_order_acquire))
      names += fmt::format("{}{}", names.empty() ? "" : " and ", found->name());
  return names;
}

DeviceDriver* device_driver(std::string_view name) {
  for (const auto& driver : drivers)
    if (DeviceDriver* const found = driver.load(std::memory_order_acquire);
        found && found->name() == name)
      return found;
  return nullptr;
}

std::optional<DeviceBuffer> find_device_buffer(const void* address) {
  for (const auto& driver : drivers)
    if (DeviceDriver* const asked = driver.load(std::memory_order_acquire))
      if (const auto place = asked->place_of(address)) return DeviceBuffer{asked, *place};
  return std::nullopt;
}

void keep_for_good(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock{mutex};
  kept.push_back(std::move(memory));
}

void* take_stream(const DeviceBuffer& at) {
  void* stream = streams().take(at);
  if (!stream)
    at_place(at, "making a stream",
             [&](DeviceDriver& driver) { return driver.make_stream(stream); });
  return stream;
}

void give_back_stream(const DeviceBuffer& at, void* stream) {
  streams().give_back(at, stream);
}

template <class Body>
void DeviceCopies::inside(const Lane& lane, const char* what, const Body& body) const {
  DeviceDriver& driver = *lane.at.driver;
  int former = 0;
  int error = driver.enter(lane.at.place, former);
  if (error == 0) {
    error = body(driver);
    driver.leave(former);
  }
  if (error != 0)
    throw SystemError(fmt::format(
        "{}: {} by {} failed on device {}: {}: keep buffers allocated until the call has ended, "
        "and "
        "see which earlier call the device failed in",
        transfer_.call, what, driver.name(), lane.at.place.device, driver.text_of(error)));
}

const DeviceCopies::Lane& DeviceCopies::lane_for(const DeviceBuffer& buffer) {
  for (const Lane& lane : lanes_)
    if (lane.at.driver == buffer.driver && lane.at.place == buffer.place) return lane;
  Lane lane{buffer, streams().take(buffer)};
  if (!lane.stream)
    inside(lane, "making a stream for a copy",
           [&](DeviceDriver& driver) { return driver.make_stream(lane.stream); });
  return lanes_.emplace_back(lane);
}

void DeviceCopies::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  using enum DeviceDriver::Direction;
  const bool possible = devices_possible.load(std::memory_order_relaxed);
  auto buffer = possible ? find_device_buffer(to) : std::nullopt;
  const auto direction = buffer ? to_device : to_host;
  if (possible && !buffer) buffer = find_device_buffer(from);
  if (!buffer) {
    std::memcpy(to, from, bytes);
    return;
  }
  const Lane& lane = lane_for(*buffer);
  inside(lane, "starting a copy", [&](DeviceDriver& driver) {
    return driver.start_copy(direction, to, from, bytes, lane.stream);
  });
}

void DeviceCopies::wait(const Lane& lane, Deadline deadline) const {
  constexpr int spins = 1000;
  for (int i = 0;; ++i) {
    int state = 0;
    inside(lane, "copying", [&](DeviceDriver& driver) {
      state = driver.query(lane.stream);
      return state == DeviceDriver::not_ready ? 0 : state;
    });
    if (state == 0) return;
    if (deadline.expired())
      throw SystemError(fmt::format(
          "{}: device {} did not finish a copy within {}: see what it does instead, or raise "
          "CAPSTAN_TIMEOUT",
          transfer_.call, lane.at.place.device, deadline.budget()));
    if (i > spins) std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
}

void DeviceCopies::finish() {
  const Deadline deadline = Deadline::in(transfer_.timeout);
  while (!lanes_.empty()) {
    wait(lanes_.back(), deadline);
    streams().give_back(lanes_.back().at, lanes_.back().stream);
    lanes_.pop_back();
  }
}

/// Lanes remain only after an error. Their streams are not reused.
DeviceCopies::~DeviceCopies() {
  for (const Lane& lane : lanes_) {
    try {
      wait(lane, Deadline::in(std::chrono::seconds{1}));
    } catch (const Error&) {
      keep_for_good(transfer_.host_memory);
    }
  }
}

}  // namespace capstan
