#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <system_error>

#include "core/device/device_driver.hpp"

// This file declares the functions of CUDA's driver API that it uses, as the ABI has them.

namespace capstan {
namespace {

class CudaDriver final : public DeviceDriver {
 public:
  explicit CudaDriver(std::shared_ptr<SharedLibrary> library) : library_(std::move(library)) {
    library_->find(pointer_get_attributes_, "cuPointerGetAttributes");
    library_->find(primary_context_retain_, "cuDevicePrimaryCtxRetain");
    library_->find(push_, "cuCtxPushCurrent_v2");
    library_->find(pop_, "cuCtxPopCurrent_v2");
    library_->find(stream_create_, "cuStreamCreate");
    library_->find(stream_query_, "cuStreamQuery");
    library_->find(copy_to_host_, "cuMemcpyDtoHAsync_v2");
    library_->find(copy_to_device_, "cuMemcpyHtoDAsync_v2");
    library_->find(error_string_, "cuGetErrorString");
  }

  bool complete() const {
    return pointer_get_attributes_ && primary_context_retain_ && push_ && pop_ && stream_create_ &&
           stream_query_ && copy_to_host_ && copy_to_device_ && error_string_;
  }

  std::string_view name() const override { return "CUDA"; }

  std::optional<DevicePlace> place_of(const void* address) const override {
    // The attributes CONTEXT, MEMORY_TYPE, IS_MANAGED and DEVICE_ORDINAL.
    int attributes[] = {1, 2, 8, 9};
    int type = 0, managed = 0;
    DevicePlace place;
    void* values[] = {static_cast<void*>(&place.context), &type, &managed, &place.device};
    // The driver leaves all at zero for unknown addresses.
    if (pointer_get_attributes_(4, attributes, values, to_device(address)) != 0 ||
        type != device_memory || managed != 0)
      return std::nullopt;
    return place;
  }

  int enter(const DevicePlace& place, int& /*former*/) override {
    Context context = place.context;
    // Memory of pools and of virtual address ranges has no context of its own.
    if (!context)
      if (const int error = primary_context(place.device, context)) return error;
    return push_(context);
  }
  void leave(int /*former*/) override {
    Context ours = nullptr;
    pop_(&ours);
  }

  int make_stream(void*& stream) override { return stream_create_(&stream, non_blocking); }
  int start_copy(Direction direction, void* to, const void* from, std::size_t bytes,
                 void* stream) override {
    return direction == Direction::to_host ? copy_to_host_(to, to_device(from), bytes, stream)
                                           : copy_to_device_(to_device(to), from, bytes, stream);
  }
  int query(void* stream) override { return stream_query_(stream); }

  std::string text_of(int code) const override {
    const char* text = nullptr;
    error_string_(code, &text);
    return fmt::format("{} ({})", text ? text : "unknown error", code);
  }

 private:
  using Context = void*;
  using DevicePointer = unsigned long long;
  static constexpr int device_memory = 2;
  static constexpr unsigned non_blocking = 1;

  static DevicePointer to_device(const void* address) {
    return reinterpret_cast<DevicePointer>(address);
  }

  /// Retained for the life of the process, as the CUDA runtime uses it, too.
  int primary_context(int device, Context& context) {
    const std::lock_guard lock{mutex_};
    Context& retained = primary_[device];
    const int error = retained ? 0 : primary_context_retain_(&retained, device);
    context = retained;
    return error;
  }

  std::shared_ptr<SharedLibrary> library_;
  std::mutex mutex_;
  std::map<int, Context> primary_;  // by device

  int (*pointer_get_attributes_)(unsigned, int*, void**, DevicePointer) = nullptr;
  int (*primary_context_retain_)(Context*, int) = nullptr;
  int (*push_)(Context) = nullptr;
  int (*pop_)(Context*) = nullptr;
  int (*stream_create_)(void**, unsigned) = nullptr;
  int (*stream_query_)(void*) = nullptr;
  int (*copy_to_host_)(void*, DevicePointer, std::size_t, void*) = nullptr;
  int (*copy_to_device_)(DevicePointer, const void*, std::size_t, void*) = nullptr;
  int (*error_string_)(int, const char**) = nullptr;
};

/// /dev/dxg is that of Windows' subsystem for Linux.
bool has_device(const SystemView& system) {
  constexpr const char* nodes[] = {"dev/nvidiactl", "proc/driver/nvidia/version", "dev/dxg"};
  return std::ranges::any_of(nodes, [&](const char* node) {
    std::error_code ignored;
    return std::filesystem::exists(system.root / node, ignored);
  });
}

}  // namespace

std::unique_ptr<DeviceDriver> make_cuda_driver(const SystemView& system) {
  const std::vector<std::string> names{"libcuda.so.1"};
  auto library = system.loader->loaded(names);
  if (!library && has_device(system)) library = system.loader->open(names);
  if (!library) return nullptr;
  auto driver = std::make_unique<CudaDriver>(std::move(library));
  return driver->complete() ? std::move(driver) : nullptr;
}

}  // namespace capstan
