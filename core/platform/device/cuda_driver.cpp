// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <mutex>
#include <system_error>

#include "core/platform/device/device_driver.hpp"
#include "kernels/device/images.hpp"

// This file declares the functions of CUDA's driver API that it uses, as the ABI has them.

namespace capstan {
namespace {

class CudaDriver final : public DeviceDriver {
 public:
  explicit CudaDriver(std::shared_ptr<SharedLibrary> library) : library_(std::move(library)) {
    DriverFunctions functions{*library_};
    functions.need(pointer_get_attributes_, "cuPointerGetAttributes")
        .need(primary_context_retain_, "cuDevicePrimaryCtxRetain")
        .need(push_, "cuCtxPushCurrent_v2")
        .need(pop_, "cuCtxPopCurrent_v2")
        .need(stream_create_, "cuStreamCreate")
        .need(stream_query_, "cuStreamQuery")
        .need(copy_to_host_, "cuMemcpyDtoHAsync_v2")
        .need(copy_to_device_, "cuMemcpyHtoDAsync_v2")
        .need(error_string_, "cuGetErrorString");
    functions.want(initialize_, "cuInit")
        .want(count_, "cuDeviceGetCount")
        .want(pci_bus_id_, "cuDeviceGetPCIBusId")
        .want(can_access_peer_, "cuDeviceCanAccessPeer")
        .want(peer_attribute_, "cuDeviceGetP2PAttribute")
        .want(context_device_, "cuCtxGetDevice")
        .want(enable_peer_, "cuCtxEnablePeerAccess")
        .want(set_bytes_, "cuMemsetD8Async")
        .want(capture_mode_, "cuThreadExchangeStreamCaptureMode")
        .want(allocate_, "cuMemAlloc_v2")
        .want(release_, "cuMemFree_v2")
        .want(ipc_get_, "cuIpcGetMemHandle")
        .want(ipc_open_, "cuIpcOpenMemHandle_v2")
        .want(ipc_close_, "cuIpcCloseMemHandle")
        .want(range_handle_, "cuMemGetHandleForAddressRange")
        .want(flush_writes_, "cuFlushGPUDirectRDMAWrites")
        .want(stream_context_, "cuStreamGetCtx")
        .want(stream_capturing_, "cuStreamIsCapturing")
        .want(stream_wait_value_, "cuStreamWaitValue32_v2", "cuStreamWaitValue32")
        .want(stream_write_value_, "cuStreamWriteValue32_v2", "cuStreamWriteValue32")
        .want(event_create_, "cuEventCreate")
        .want(event_destroy_, "cuEventDestroy_v2")
        .want(event_record_, "cuEventRecord")
        .want(event_query_, "cuEventQuery")
        .want(event_elapsed_, "cuEventElapsedTime")
        .want(stream_wait_event_, "cuStreamWaitEvent")
        .want(attribute_, "cuDeviceGetAttribute")
        .want(module_load_, "cuModuleLoadData")
        .want(module_function_, "cuModuleGetFunction")
        .want(launch_, "cuLaunchKernel");
    library_->find(load_function_, "cuFuncLoad");  // since version 12.4
    lacked_ = functions.lacked();
    missing_ = functions.missing();
  }

  const std::string& lacked() const { return lacked_; }

  std::string_view name() const override { return "CUDA"; }
  std::vector<std::span<const std::byte>> images() const override {
    return kernels::device::cuda_images();
  }
  const std::vector<std::string>& missing() const override { return missing_; }

  std::string text_of(int code) const override {
    const char* text = nullptr;
    error_string_(code, &text);
    return fmt::format("{} ({})", text ? text : "unknown error", code);
  }

  int initialize() override { return call_if_there(initialize_, 0U); }
  int count(int& devices) const override { return call_if_there(count_, &devices); }

  int pci_address(int device, std::string& address) const override {
    std::array<char, 32> text{};
    const int error =
        call_if_there(pci_bus_id_, text.data(), static_cast<int>(text.size()), device);
    address = text.data();
    std::ranges::transform(address, address.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return error;
  }

  int can_access_peer(int device, int peer, bool& can) const override {
    int answer = 0;
    const int error = call_if_there(can_access_peer_, &answer, device, peer);
    can = answer != 0;
    return error;
  }

  int is_linked(int device, int peer, bool& linked) const override {
    constexpr int native_atomics = 3;  // which NVLink has, and PCIe lacks
    int answer = 0;
    const int error = call_if_there(peer_attribute_, &answer, native_atomics, device, peer);
    linked = answer != 0;
    return error;
  }

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

  int allocation_of(const void* address, DeviceAllocation& allocation) const override {
    constexpr int buffer_id = 7, range_begin = 11, range_size = 12;
    int attributes[] = {buffer_id, range_begin, range_size};
    allocation = {};
    void* values[] = {&allocation.identity, &allocation.begin, &allocation.bytes};
    const int error = pointer_get_attributes_(3, attributes, values, to_device(address));
    const bool known = allocation.bytes != 0 && allocation.identity != 0;
    return error == 0 && !known ? not_supported : error;
  }

  int place_of_stream(void* stream, DevicePlace& place) override {
    if (!context_device_) return not_supported;
    if (const int error = call_if_there(stream_context_, stream, &place.context)) return error;
    if (const int error = push_(place.context)) return error;
    const int error = context_device_(&place.device);
    leave(0);
    return error;
  }

  bool is_stream_of(const DevicePlace& place, void* stream) const override {
    Context context = nullptr;
    return place.context && call_if_there(stream_context_, stream, &context) == 0 &&
           context == place.context;
  }

  int is_capturing(void* stream, bool& capturing) const override {
    int status = 0;
    const int error = call_if_there(stream_capturing_, stream, &status);
    capturing = status != 0;
    return error;
  }

  int exchange_capture_mode(int& mode) override { return call_if_there(capture_mode_, &mode); }

  int enter(const DevicePlace& place, int& /*former*/) override {
    Context context = nullptr;
    if (const int error = context_of(place, context)) return error;
    return push_(context);
  }
  void leave(int /*former*/) override {
    Context ours = nullptr;
    pop_(&ours);
  }

  int allocate(std::size_t bytes, void*& memory) override {
    DevicePointer at = 0;
    const int error = call_if_there(allocate_, &at, bytes);
    memory = to_pointer(at);
    return error;
  }
  int release(void* memory) override { return call_if_there(release_, to_device(memory)); }
  int set_zero(void* memory, std::size_t bytes, void* stream) override {
    return call_if_there(set_bytes_, to_device(memory), static_cast<unsigned char>(0), bytes,
                         stream);
  }
  int enable_peer(const DevicePlace& peer) override {
    constexpr int enabled_already = 704;
    Context context = nullptr;
    if (const int error = context_of(peer, context)) return error;
    const int error = call_if_there(enable_peer_, context, 0U);
    return error == enabled_already ? 0 : error;
  }

  int export_memory(void* memory, DeviceMemoryHandle& handle) override {
    return call_if_there(ipc_get_, &handle, to_device(memory));
  }
  int open_memory(const DeviceMemoryHandle& handle, void*& memory) override {
    constexpr unsigned enable_peer_access = 1;
    DevicePointer at = 0;
    const int error = call_if_there(ipc_open_, &at, handle, enable_peer_access);
    memory = to_pointer(at);
    return error;
  }
  int close_memory(void* memory) override { return call_if_there(ipc_close_, to_device(memory)); }
  int export_dma_buf(const void* address, std::size_t bytes, int& descriptor) override {
    constexpr int dma_buf = 1;
    return call_if_there(range_handle_, &descriptor, to_device(address), bytes, dma_buf, 0ULL);
  }

  int flush_remote_writes(int device) override {
    constexpr int writes_ordering = 118, by_owner = 100;
    constexpr int of_this_context = 0, for_the_owner = 100;
    int ordering = 0;
    if (call_if_there(attribute_, &ordering, writes_ordering, device) == 0 && ordering >= by_owner)
      return 0;
    return call_if_there(flush_writes_, of_this_context, for_the_owner);
  }

  int multiprocessors(int device, int& number) const override {
    constexpr int multiprocessor_count = 16;
    return call_if_there(attribute_, &number, multiprocessor_count, device);
  }
  int processes_overlap(int device, bool& overlap) const override {
    constexpr int mps_enabled = 133;  // since version 12.4
    int enabled = 0;
    const int error = call_if_there(attribute_, &enabled, mps_enabled, device);
    overlap = error == 0 && enabled != 0;
    return 0;
  }
  HardwareQueues hardware_queues() const override {
    return hardware_queues_of("CUDA_DEVICE_MAX_CONNECTIONS", 8, 32);
  }
  int load_module(const void* image, void*& module) override {
    return call_if_there(module_load_, &module, image);
  }
  int find_kernel(void* module, const char* name, void*& kernel) override {
    const int error = call_if_there(module_function_, &kernel, module, name);
    // Otherwise the first launch may load it, and wait for the device to do so.
    return error == 0 && load_function_ ? load_function_(kernel) : error;
  }
  int launch(void* kernel, unsigned blocks, unsigned threads, const void* arguments,
             std::size_t bytes, void* stream) override {
    void* extra[] = {argument_buffer, const_cast<void*>(arguments), argument_size, &bytes, nullptr};
    return call_if_there(launch_, kernel, blocks, 1U, 1U, threads, 1U, 1U, 0U, stream,
                         static_cast<void**>(nullptr), static_cast<void**>(extra));
  }

  int make_stream(void*& stream) override { return stream_create_(&stream, non_blocking); }
  int start_copy(Direction direction, void* to, const void* from, std::size_t bytes,
                 void* stream) override {
    return direction == Direction::to_host ? copy_to_host_(to, to_device(from), bytes, stream)
                                           : copy_to_device_(to_device(to), from, bytes, stream);
  }
  int query(void* stream) override { return stream_query_(stream); }
  int wait_for_flag(void* stream, const std::uint32_t* flag, std::uint32_t value) override {
    constexpr unsigned at_least = 0;
    return call_if_there(stream_wait_value_, stream, to_device(flag), value, at_least);
  }

  bool raises_words() const override { return stream_write_value_ && stream_wait_value_; }
  int raise_word(void* stream, std::uint32_t* word, std::uint32_t value) override {
    constexpr unsigned behind_copies = 0;
    return call_if_there(stream_write_value_, stream, to_device(word), value, behind_copies);
  }

  int make_event(void*& event, bool timed) override {
    constexpr unsigned without_time = 2;
    return call_if_there(event_create_, &event, timed ? 0U : without_time);
  }
  int release_event(void* event) override { return call_if_there(event_destroy_, event); }
  int record(void* event, void* stream) override {
    return call_if_there(event_record_, event, stream);
  }
  int wait_for_event(void* stream, void* event) override {
    return call_if_there(stream_wait_event_, stream, event, 0U);
  }
  int query_event(void* event) override { return call_if_there(event_query_, event); }
  int elapsed(void* from, void* to, float& milliseconds) override {
    return call_if_there(event_elapsed_, &milliseconds, from, to);
  }

 private:
  using Context = void*;
  using DevicePointer = unsigned long long;
  static constexpr int device_memory = 2;
  static constexpr unsigned non_blocking = 1;
  // Names of the entries of a launch's extra arguments.
  static inline void* const argument_buffer = reinterpret_cast<void*>(std::uintptr_t{1});
  static inline void* const argument_size = reinterpret_cast<void*>(std::uintptr_t{2});

  static DevicePointer to_device(const void* address) {
    return reinterpret_cast<DevicePointer>(address);
  }
  static void* to_pointer(DevicePointer address) { return reinterpret_cast<void*>(address); }

  /// Memory of pools and of virtual address ranges has no context of its own.
  int context_of(const DevicePlace& place, Context& context) {
    context = place.context;
    return context ? 0 : primary_context(place.device, context);
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
  std::string lacked_;
  std::vector<std::string> missing_;
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

  int (*initialize_)(unsigned) = nullptr;
  int (*count_)(int*) = nullptr;
  int (*pci_bus_id_)(char*, int, int) = nullptr;
  int (*can_access_peer_)(int*, int, int) = nullptr;
  int (*peer_attribute_)(int*, int, int, int) = nullptr;
  int (*context_device_)(int*) = nullptr;
  int (*enable_peer_)(Context, unsigned) = nullptr;
  int (*set_bytes_)(DevicePointer, unsigned char, std::size_t, void*) = nullptr;
  int (*capture_mode_)(int*) = nullptr;
  int (*load_function_)(void*) = nullptr;
  int (*allocate_)(DevicePointer*, std::size_t) = nullptr;
  int (*release_)(DevicePointer) = nullptr;
  int (*ipc_get_)(DeviceMemoryHandle*, DevicePointer) = nullptr;
  int (*ipc_open_)(DevicePointer*, DeviceMemoryHandle, unsigned) = nullptr;
  int (*ipc_close_)(DevicePointer) = nullptr;
  int (*flush_writes_)(int, int) = nullptr;
  int (*range_handle_)(void*, DevicePointer, std::size_t, int, unsigned long long) = nullptr;
  int (*stream_context_)(void*, Context*) = nullptr;
  int (*stream_capturing_)(void*, int*) = nullptr;
  int (*stream_wait_value_)(void*, DevicePointer, std::uint32_t, unsigned) = nullptr;
  int (*stream_write_value_)(void*, DevicePointer, std::uint32_t, unsigned) = nullptr;
  int (*event_create_)(void**, unsigned) = nullptr;
  int (*event_destroy_)(void*) = nullptr;
  int (*event_record_)(void*, void*) = nullptr;
  int (*event_query_)(void*) = nullptr;
  int (*event_elapsed_)(float*, void*, void*) = nullptr;
  int (*stream_wait_event_)(void*, void*, unsigned) = nullptr;
  int (*attribute_)(int*, int, int) = nullptr;
  int (*module_load_)(void**, const void*) = nullptr;
  int (*module_function_)(void**, void*, const char*) = nullptr;
  int (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                 void**, void**) = nullptr;
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

FoundDriver find_cuda_driver(const SystemView& system) {
  const std::vector<std::string> names{"libcuda.so.1"};
  auto library = system.loader->loaded(names);
  const bool device = has_device(system);
  if (!library && device) library = system.loader->open(names);
  if (!library)
    return {nullptr, device ? "there is an NVIDIA device, but libcuda.so.1 cannot be loaded"
                            : "there is no NVIDIA device, and libcuda.so.1 is not loaded"};
  auto driver = std::make_unique<CudaDriver>(std::move(library));
  if (!driver->lacked().empty()) return {nullptr, "libcuda.so.1 lacks " + driver->lacked()};
  return {std::move(driver)};
}

}  // namespace capstan
