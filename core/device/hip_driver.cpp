#include <fmt/format.h>

#include <mutex>

#include "core/device/device_driver.hpp"

// This file declares the functions of HIP's runtime that it uses, as the ABI has them.

namespace capstan {
namespace {

class HipDriver final : public DeviceDriver {
 public:
  explicit HipDriver(std::shared_ptr<SharedLibrary> library) : library_(std::move(library)) {
    library_->find(runtime_get_version_, "hipRuntimeGetVersion");
    library_->find(pointer_get_attributes_, "hipPointerGetAttributes");
    library_->find(get_last_error_, "hipGetLastError");
    library_->find(get_device_, "hipGetDevice");
    library_->find(set_device_, "hipSetDevice");
    library_->find(stream_create_, "hipStreamCreateWithFlags");
    library_->find(stream_query_, "hipStreamQuery");
    library_->find(copy_, "hipMemcpyAsync");
    library_->find(error_string_, "hipGetErrorString");
  }

  bool complete() const {
    return runtime_get_version_ && pointer_get_attributes_ && get_last_error_ && get_device_ &&
           set_device_ && stream_create_ && stream_query_ && copy_ && error_string_;
  }

  std::string_view name() const override { return "HIP"; }

  std::optional<DevicePlace> place_of(const void* address) const override {
    Attributes attributes;
    if (pointer_get_attributes_(&attributes, address) != 0) {
      get_last_error_();  // clears the error, which the program did not cause
      return std::nullopt;
    }
    if (attributes.type != device_memory_type() || attributes.managed != 0) return std::nullopt;
    return DevicePlace{nullptr, attributes.device};
  }

  int enter(const DevicePlace& place, int& former) override {
    const int error = get_device_(&former);
    return error != 0 ? error : set_device_(place.device);
  }
  void leave(int former) override { set_device_(former); }

  int make_stream(void*& stream) override { return stream_create_(&stream, non_blocking); }
  int start_copy(Direction direction, void* to, const void* from, std::size_t bytes,
                 void* stream) override {
    constexpr int host_to_device = 1, device_to_host = 2;
    return copy_(to, from, bytes, direction == Direction::to_host ? device_to_host : host_to_device,
                 stream);
  }
  int query(void* stream) override { return stream_query_(stream); }

  std::string text_of(int code) const override {
    const char* text = error_string_(code);
    return fmt::format("{} ({})", text ? text : "unknown error", code);
  }

 private:
  /// hipPointerAttribute_t, with room for what later versions may add.
  struct Attributes {
    int type = 0;
    int device = 0;
    void* device_pointer = nullptr;
    void* host_pointer = nullptr;
    int managed = 0;
    unsigned flags = 0;
    std::byte reserved[64]{};
  };
  static constexpr unsigned non_blocking = 1;

  /// Version 6 renumbered the types of memory.
  int device_memory_type() const {
    constexpr int sixth = 60'000'000;
    std::call_once(versioned_, [this] {
      int version = 0;
      device_memory_ = runtime_get_version_(&version) == 0 && version < sixth ? 1 : 2;
    });
    return device_memory_;
  }

  std::shared_ptr<SharedLibrary> library_;
  mutable std::once_flag versioned_;
  mutable int device_memory_ = 0;

  int (*runtime_get_version_)(int*) = nullptr;
  int (*pointer_get_attributes_)(Attributes*, const void*) = nullptr;
  int (*get_last_error_)() = nullptr;
  int (*get_device_)(int*) = nullptr;
  int (*set_device_)(int) = nullptr;
  int (*stream_create_)(void**, unsigned) = nullptr;
  int (*stream_query_)(void*) = nullptr;
  int (*copy_)(void*, const void*, std::size_t, int, void*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
};

}  // namespace

std::unique_ptr<DeviceDriver> make_hip_driver(const SystemView& system) {
  auto library = system.loader->loaded(hip_libraries());
  if (!library) return nullptr;
  auto driver = std::make_unique<HipDriver>(std::move(library));
  return driver->complete() ? std::move(driver) : nullptr;
}

}  // namespace capstan
