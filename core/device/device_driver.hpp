#pragma once

#include <compare>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/device/gpu_direct.hpp"

namespace capstan {

/// From where memory of a device is reached.
struct DevicePlace {
  void* context =
      nullptr;  ///< CUDA: the context that it belongs to; null: the device's primary one
  int device = 0;

  auto operator<=>(const DevicePlace&) const = default;
};

/// What copies between host and devices need of a vendor's library. Thread-safe. A function that
/// returns an int returns 0, or the library's error code.
class DeviceDriver {
 public:
  enum class Direction { to_host, to_device };
  static constexpr int not_ready = 600;  ///< the error code of both vendors

  virtual ~DeviceDriver() = default;

  /// "CUDA", "HIP".
  virtual std::string_view name() const = 0;

  /// Nothing for memory that the host can access: ordinary, registered and managed memory.
  virtual std::optional<DevicePlace> place_of(const void* address) const = 0;

  /// Makes a place current for this thread, and what was current before it again.
  virtual int enter(const DevicePlace& place, int& former) = 0;
  virtual void leave(int former) = 0;

  // In the current place. A stream waits for no other stream.

  virtual int make_stream(void*& stream) = 0;
  virtual int start_copy(Direction direction, void* to, const void* from, std::size_t bytes,
                         void* stream) = 0;
  /// `not_ready` while something is under way on it.
  virtual int query(void* stream) = 0;

  virtual std::string text_of(int code) const = 0;
};

/// CUDA's driver, or null. It is asked nothing before the program has initialised it; where there
/// is a device of NVIDIA's it is loaded, as programs load it late (by the CUDA runtime's first
/// call).
std::unique_ptr<DeviceDriver> make_cuda_driver(const SystemView& system = {});
/// HIP's runtime, or null. As the first question initialises it, it must have been loaded already.
std::unique_ptr<DeviceDriver> make_hip_driver(const SystemView& system = {});

}  // namespace capstan
