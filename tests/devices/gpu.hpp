// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "capstan/error.hpp"
#include "core/platform/device/at_place.hpp"
#include "core/platform/device/gpu_page_locker.hpp"
#include "core/platform/memory/pinned_memory.hpp"

namespace capstan {

/// The device, with memory and a stream.
class Gpu {
 public:
  Gpu() : where_{&driver(), {}}, stream_(make_stream()) {}

  void* make_stream() const {
    void* stream = nullptr;
    at_place(where_, "making a stream", [&](DeviceDriver& d) { return d.make_stream(stream); });
    return stream;
  }

  const DeviceBuffer& where() const { return where_; }
  void* stream() const { return stream_; }

  std::byte* allocate(std::size_t bytes) {
    void* memory = nullptr;
    at_place(where_, "allocating", [&](DeviceDriver& d) { return d.allocate(bytes, memory); });
    return static_cast<std::byte*>(memory);
  }
  std::byte* allocate_shared(std::size_t bytes) {
    void* memory = nullptr;
    at_place(where_, "allocating",
             [&](DeviceDriver& d) { return d.allocate_shared(bytes, memory); });
    return static_cast<std::byte*>(memory);
  }
  void release(void* memory) noexcept {
    try {
      at_place(where_, "releasing", [&](DeviceDriver& d) { return d.release(memory); });
    } catch (const Error&) {  // after a fault the device has nothing any more
    }
  }
  void write(std::byte* to, const std::vector<std::byte>& from) {
    auto pinned = pinned_.allocate(Bytes{from.size()});
    std::ranges::copy(from, pinned.data());
    copy(DeviceDriver::Direction::to_device, to, pinned.data(), from.size());
  }
  std::vector<std::byte> read(const std::byte* from, std::size_t bytes) {
    auto pinned = pinned_.allocate(Bytes{bytes});
    copy(DeviceDriver::Direction::to_host, pinned.data(), from, bytes);
    return {pinned.data(), pinned.data() + bytes};
  }
  void wait() { wait(stream_, std::chrono::minutes{2}); }
  /// Whether the stream is done within the limit. Throws the stream's error.
  bool wait(void* stream, std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (int state = DeviceDriver::not_ready; std::chrono::steady_clock::now() < end;
         std::this_thread::yield()) {
      at_place(where_, "waiting for a stream", [&](DeviceDriver& d) {
        state = d.query(stream);
        return state == DeviceDriver::not_ready ? 0 : state;
      });
      if (state == 0) return true;
    }
    return false;
  }

 private:
  /// The first vendor's with a device. Throws SystemError. Lives as long as the process.
  static DeviceDriver& driver() {
    static DeviceDriver* const found = [] {
      FoundDriver cuda = find_cuda_driver(), hip = find_hip_driver();
      if (!cuda.driver && !hip.driver) throw SystemError(cuda.obstacle + "; " + hip.obstacle);
      auto& chosen = cuda.driver ? cuda.driver : hip.driver;
      int devices = 0;
      if (chosen->initialize() != 0 || chosen->count(devices) != 0 || devices == 0)
        throw SystemError("there is a driver, but no GPU that it knows");
      look_for_devices();
      return chosen.release();
    }();
    return *found;
  }

  void copy(DeviceDriver::Direction direction, void* to, const void* from, std::size_t bytes) {
    at_place(where_, "copying",
             [&](DeviceDriver& d) { return d.start_copy(direction, to, from, bytes, stream_); });
    wait();
  }

  DeviceBuffer where_;
  void* stream_ = nullptr;
  PinnedMemory pinned_{make_page_locker()};
};

}  // namespace capstan
