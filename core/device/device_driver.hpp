#pragma once

#include <compare>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/device/gpu_direct.hpp"

namespace capstan {

/// The device and context through which memory is accessed.
struct DevicePlace {
  void* context =
      nullptr;  ///< CUDA: the context that it belongs to; null: the device's primary one
  int device = 0;

  auto operator<=>(const DevicePlace&) const = default;
};

/// The functions of a vendor's library that are needed for copies between host and devices.
/// Thread-safe. A function that returns an int returns 0, or the library's error code.
class DeviceDriver {
 public:
  enum class Direction { to_host, to_device };
  static constexpr int not_ready = 600;  ///< the error code of both vendors

  virtual ~DeviceDriver() = default;

  /// "CUDA", "HIP".
  virtual std::string_view name() const = 0;

  /// The place of device memory. Nothing for memory that the host can access: ordinary, registered
  /// and managed memory.
  virtual std::optional<DevicePlace> place_of(const void* address) const = 0;

  /// Makes a place current for this thread; leave() restores the former one.
  virtual int enter(const DevicePlace& place, int& former) = 0;
  virtual void leave(int former) = 0;

  // These use the current place. A stream waits for no other stream.

  virtual int make_stream(void*& stream) = 0;
  virtual int start_copy(Direction direction, void* to, const void* from, std::size_t bytes,
                         void* stream) = 0;
  /// `not_ready` while a copy is in progress on the stream.
  virtual int query(void* stream) = 0;

  virtual std::string text_of(int code) const = 0;
};

/// CUDA's driver, or null. Loads the driver if there is an NVIDIA device, since the CUDA runtime
/// does so only at its first call. Does not initialise it.
std::unique_ptr<DeviceDriver> make_cuda_driver(const SystemView& system = {});
/// HIP's runtime, or null if it is not loaded yet: the first call would initialise it.
std::unique_ptr<DeviceDriver> make_hip_driver(const SystemView& system = {});

}  // namespace capstan
