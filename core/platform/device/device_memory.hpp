// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/platform/device/device_driver.hpp"

namespace capstan {

/// Looks for the drivers that this process has. Loads nothing on a machine without devices. Called
/// when a communicator is made. Thread-safe, and cheap to repeat.
void look_for_devices();

/// The drivers that have been found: "CUDA", "HIP", "CUDA and HIP", or an empty text.
std::string device_drivers();

/// The driver of that name, "CUDA" or "HIP", if it has been found. It lives as long as the process.
DeviceDriver* device_driver(std::string_view name);

/// Whether a driver has been found. Programs without one pay only for reading this. False again in
/// forked children that have made no communicator.
inline std::atomic<bool> devices_possible = false;

/// Memory that only a device can access.
struct DeviceBuffer {
  DeviceDriver* driver = nullptr;
  DevicePlace place{};
};
/// The device memory at an address. Nothing for memory that the host can access. Thread-safe.
std::optional<DeviceBuffer> find_device_buffer(const void* address);

/// As long as one lives, this thread takes all buffers for host memory, and asks no driver.
class HostMemoryOnly {
 public:
  HostMemoryOnly() { ++depth(); }
  HostMemoryOnly(const HostMemoryOnly&) = delete;
  ~HostMemoryOnly() { --depth(); }
  static bool applies() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int depth = 0;
    return depth;
  }
};

inline bool on_device(const void* address) {
  return devices_possible.load(std::memory_order_relaxed) && !HostMemoryOnly::applies() &&
         find_device_buffer(address);
}

/// Host memory that a device may still use is not released as long as the process lives.
void keep_for_good(std::shared_ptr<void> memory);

/// A stream of Capstan's own that is not in use. Those that have been given back are used again,
/// and none is released. Throws SystemError. Thread-safe.
void* take_stream(const DeviceBuffer& at);
void give_back_stream(const DeviceBuffer& at, void* stream);

/// The operation that copies to and from a device belong to.
struct Transfer {
  std::string call{};                   ///< "rank 1: all_reduce(...)", for errors
  std::shared_ptr<void> host_memory{};  ///< kept while a device may access it
  std::chrono::milliseconds timeout = std::chrono::minutes{5};
};

/// Concurrent copies between host memory and memory of devices.
class DeviceCopies {
 public:
  explicit DeviceCopies(Transfer transfer) : transfer_(std::move(transfer)) {}
  DeviceCopies(const DeviceCopies&) = delete;
  /// Waits for copies in progress. Host memory that a device does not release in time is leaked.
  ~DeviceCopies();

  /// Starts a copy. At most one side may be on a device. Throws SystemError.
  void copy(void* to, const void* from, std::size_t bytes);
  /// Waits for all copies. Throws SystemError, also when a device takes too long.
  void finish();

 private:
  /// The copies of one place.
  struct Lane {
    DeviceBuffer at;
    void* stream = nullptr;
  };
  template <class Body>
  void inside(const Lane& lane, const char* what, const Body& body) const;
  const Lane& lane_for(const DeviceBuffer& buffer);
  void wait(const Lane& lane, Deadline deadline) const;

  Transfer transfer_;
  std::vector<Lane> lanes_;
};

}  // namespace capstan
