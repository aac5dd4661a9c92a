// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <mutex>

#include "core/platform/device/device_driver.hpp"
#include "kernels/device/images.hpp"

// This file declares the functions of HIP's runtime that it uses, as the ABI has them.

namespace capstan {
namespace {

class HipDriver final : public DeviceDriver {
 public:
  explicit HipDriver(std::shared_ptr<SharedLibrary> library) : library_(std::move(library)) {
    DriverFunctions functions{*library_};
    functions.need(runtime_get_version_, "hipRuntimeGetVersion")
        .need(pointer_get_attributes_, "hipPointerGetAttributes")
        .need(get_last_error_, "hipGetLastError")
        .need(get_device_, "hipGetDevice")
        .need(set_device_, "hipSetDevice")
        .need(stream_create_, "hipStreamCreateWithFlags")
        .need(stream_query_, "hipStreamQuery")
        .need(copy_, "hipMemcpyAsync")
        .need(error_string_, "hipGetErrorString");
    functions.want(initialize_, "hipInit")
        .want(count_, "hipGetDeviceCount")
        .want(pci_bus_id_, "hipDeviceGetPCIBusId")
        .want(can_access_peer_, "hipDeviceCanAccessPeer")
        .want(link_type_, "hipExtGetLinkTypeAndHopCount")
        .want(enable_peer_, "hipDeviceEnablePeerAccess")
        .want(set_bytes_, "hipMemsetAsync")
        .want(capture_mode_, "hipThreadExchangeStreamCaptureMode")
        .want(allocate_, "hipMalloc")
        .want(allocate_with_flags_, "hipExtMallocWithFlags")
        .want(release_, "hipFree")
        .want(ipc_get_, "hipIpcGetMemHandle")
        .want(ipc_open_, "hipIpcOpenMemHandle")
        .want(ipc_close_, "hipIpcCloseMemHandle")
        .want(range_handle_, "hipMemGetHandleForAddressRange")
        .want(flush_writes_, "hipDeviceFlushGPUDirectRDMAWrites")
        .want(pointer_attribute_, "hipPointerGetAttribute")
        .want(stream_device_, "hipStreamGetDevice")
        .want(stream_capturing_, "hipStreamIsCapturing")
        .want(stream_wait_value_, "hipStreamWaitValue32")
        .want(stream_write_value_, "hipStreamWriteValue32")
        .want(event_create_, "hipEventCreateWithFlags")
        .want(event_destroy_, "hipEventDestroy")
        .want(event_record_, "hipEventRecord")
        .want(event_query_, "hipEventQuery")
        .want(event_elapsed_, "hipEventElapsedTime")
        .want(stream_wait_event_, "hipStreamWaitEvent")
        .want(attribute_, "hipDeviceGetAttribute")
        .want(module_load_, "hipModuleLoadData")
        .want(module_function_, "hipModuleGetFunction")
        .want(launch_, "hipModuleLaunchKernel");
    lacked_ = functions.lacked();
    missing_ = functions.missing();
  }

  const std::string& lacked() const { return lacked_; }

  std::string_view name() const override { return "HIP"; }
  std::vector<std::span<const std::byte>> images() const override {
    return kernels::device::hip_images();
  }
  const std::vector<std::string>& missing() const override { return missing_; }

  std::string text_of(int code) const override {
    const char* text = error_string_(code);
    return fmt::format("{} ({})", text ? text : "unknown error", code);
  }

  int initialize() override { return call_if_there(initialize_, 0U); }
  int count(int& devices) const override { return call_if_there(count_, &devices); }

  int pci_address(int device, std::string& address) const override {
    std::array<char, 32> text{};
    const int error =
        call_if_there(pci_bus_id_, text.data(), static_cast<int>(text.size()), device);
    address = text.data();
    return error;
  }

  int can_access_peer(int device, int peer, bool& can) const override {
    int answer = 0;
    const int error = call_if_there(can_access_peer_, &answer, device, peer);
    can = answer != 0;
    return error;
  }

  int is_linked(int device, int peer, bool& linked) const override {
    constexpr std::uint32_t xgmi = 4;
    std::uint32_t type = 0, hops = 0;
    const int error = call_if_there(link_type_, device, peer, &type, &hops);
    linked = type == xgmi;
    return error;
  }

  std::optional<DevicePlace> place_of(const void* address) const override {
    Attributes attributes;
    if (pointer_get_attributes_(&attributes, address) != 0) {
      get_last_error_();  // clears the error, which the program did not cause
      return std::nullopt;
    }
    if (attributes.type != device_memory_type() || attributes.managed != 0) return std::nullopt;
    return DevicePlace{nullptr, attributes.device};
  }

  int allocation_of(const void* address, DeviceAllocation& allocation) const override {
    constexpr int buffer_id = 7, range_begin = 11, range_size = 12;
    allocation = {};
    const auto ask = [&](void* value, int attribute) {
      const int error =
          call_if_there(pointer_attribute_, value, attribute, const_cast<void*>(address));
      if (error != 0 && error != not_supported) get_last_error_();
      return error;
    };
    if (const int error = ask(&allocation.identity, buffer_id)) return error;
    if (allocation.identity == 0) return not_supported;
    if (const int error = ask(&allocation.begin, range_begin)) return error;
    return ask(&allocation.bytes, range_size);
  }

  int place_of_stream(void* stream, DevicePlace& place) override {
    place.context = nullptr;
    return call_if_there(stream_device_, stream, &place.device);
  }

  int is_capturing(void* stream, bool& capturing) const override {
    int status = 0;
    const int error = call_if_there(stream_capturing_, stream, &status);
    capturing = status != 0;
    return error;
  }

  int exchange_capture_mode(int& mode) override { return call_if_there(capture_mode_, &mode); }

  int enter(const DevicePlace& place, int& former) override {
    const int error = get_device_(&former);
    return error != 0 ? error : set_device_(place.device);
  }
  void leave(int former) override { set_device_(former); }

  int allocate(std::size_t bytes, void*& memory) override {
    return call_if_there(allocate_, &memory, bytes);
  }
  /// hipMalloc's memory is coherent between devices only when kernels end.
  int allocate_shared(std::size_t bytes, void*& memory) override {
    constexpr unsigned fine_grained = 1;
    return call_if_there(allocate_with_flags_, &memory, bytes, fine_grained);
  }
  int release(void* memory) override { return call_if_there(release_, memory); }
  int set_zero(void* memory, std::size_t bytes, void* stream) override {
    return call_if_there(set_bytes_, memory, 0, bytes, stream);
  }
  int enable_peer(const DevicePlace& peer) override {
    constexpr int enabled_already = 704;
    const int error = call_if_there(enable_peer_, peer.device, 0U);
    if (error != enabled_already) return error;
    get_last_error_();
    return 0;
  }

  int export_memory(void* memory, DeviceMemoryHandle& handle) override {
    return call_if_there(ipc_get_, &handle, memory);
  }
  int open_memory(const DeviceMemoryHandle& handle, void*& memory) override {
    constexpr unsigned enable_peer_access = 1;
    return call_if_there(ipc_open_, &memory, handle, enable_peer_access);
  }
  int close_memory(void* memory) override { return call_if_there(ipc_close_, memory); }
  int export_dma_buf(const void* address, std::size_t bytes, int& descriptor) override {
    constexpr int dma_buf = 1;
    return call_if_there(range_handle_, &descriptor, const_cast<void*>(address), bytes, dma_buf,
                         0ULL);
  }

  int flush_remote_writes(int /*device*/) override {
    constexpr int of_this_device = 0, for_the_owner = 100;
    return call_if_there(flush_writes_, of_this_device, for_the_owner);
  }

  int multiprocessors(int device, int& number) const override {
    constexpr int multiprocessor_count = 63;  // since version 5
    return call_if_there(attribute_, &number, multiprocessor_count, device);
  }
  /// AMD's scheduler gives processes queues of their own.
  int processes_overlap(int /*device*/, bool& overlap) const override {
    overlap = true;
    return 0;
  }
  HardwareQueues hardware_queues() const override {
    return hardware_queues_of("GPU_MAX_HW_QUEUES", 4, 24);
  }
  int load_module(const void* image, void*& module) override {
    return call_if_there(module_load_, &module, image);
  }
  int find_kernel(void* module, const char* name, void*& kernel) override {
    return call_if_there(module_function_, &kernel, module, name);
  }
  int launch(void* kernel, unsigned blocks, unsigned threads, const void* arguments,
             std::size_t bytes, void* stream) override {
    void* extra[] = {argument_buffer, const_cast<void*>(arguments), argument_size, &bytes,
                     argument_end};
    return call_if_there(launch_, kernel, blocks, 1U, 1U, threads, 1U, 1U, 0U, stream,
                         static_cast<void**>(nullptr), static_cast<void**>(extra));
  }

  int make_stream(void*& stream) override { return stream_create_(&stream, non_blocking); }
  int start_copy(Direction direction, void* to, const void* from, std::size_t bytes,
                 void* stream) override {
    constexpr int host_to_device = 1, device_to_host = 2;
    return copy_(to, from, bytes, direction == Direction::to_host ? device_to_host : host_to_device,
                 stream);
  }
  int query(void* stream) override { return stream_query_(stream); }
  int wait_for_flag(void* stream, const std::uint32_t* flag, std::uint32_t value) override {
    constexpr unsigned at_least = 0, all_bits = ~0U;
    return call_if_there(stream_wait_value_, stream, const_cast<std::uint32_t*>(flag), value,
                         at_least, all_bits);
  }

  bool raises_words() const override { return stream_write_value_ && stream_wait_value_; }
  int raise_word(void* stream, std::uint32_t* word, std::uint32_t value) override {
    constexpr unsigned usual = 0;
    return call_if_there(stream_write_value_, stream, static_cast<void*>(word), value, usual);
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
  // Names of the entries of a launch's extra arguments.
  static inline void* const argument_buffer = reinterpret_cast<void*>(std::uintptr_t{1});
  static inline void* const argument_size = reinterpret_cast<void*>(std::uintptr_t{2});
  static inline void* const argument_end = reinterpret_cast<void*>(std::uintptr_t{3});

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
  std::string lacked_;
  std::vector<std::string> missing_;
  mutable std::once_flag versioned_;
  mutable int device_memory_ = 0;

  int (*runtime_get_version_)(int*) = nullptr;
  int (*pointer_get_attributes_)(Attributes*, const void*) = nullptr;
  int (*pointer_attribute_)(void*, int, void*) = nullptr;
  int (*get_last_error_)() = nullptr;
  int (*get_device_)(int*) = nullptr;
  int (*set_device_)(int) = nullptr;
  int (*stream_create_)(void**, unsigned) = nullptr;
  int (*stream_query_)(void*) = nullptr;
  int (*copy_)(void*, const void*, std::size_t, int, void*) = nullptr;
  const char* (*error_string_)(int) = nullptr;

  int (*initialize_)(unsigned) = nullptr;
  int (*count_)(int*) = nullptr;
  int (*pci_bus_id_)(char*, int, int) = nullptr;
  int (*can_access_peer_)(int*, int, int) = nullptr;
  int (*link_type_)(int, int, std::uint32_t*, std::uint32_t*) = nullptr;
  int (*enable_peer_)(int, unsigned) = nullptr;
  int (*set_bytes_)(void*, int, std::size_t, void*) = nullptr;
  int (*capture_mode_)(int*) = nullptr;
  int (*allocate_)(void**, std::size_t) = nullptr;
  int (*allocate_with_flags_)(void**, std::size_t, unsigned) = nullptr;
  int (*release_)(void*) = nullptr;
  int (*flush_writes_)(int, int) = nullptr;
  int (*ipc_get_)(DeviceMemoryHandle*, void*) = nullptr;
  int (*ipc_open_)(void**, DeviceMemoryHandle, unsigned) = nullptr;
  int (*ipc_close_)(void*) = nullptr;
  int (*range_handle_)(void*, void*, std::size_t, int, unsigned long long) = nullptr;
  int (*stream_device_)(void*, int*) = nullptr;
  int (*stream_capturing_)(void*, int*) = nullptr;
  int (*stream_write_value_)(void*, void*, std::uint32_t, unsigned) = nullptr;
  int (*stream_wait_value_)(void*, void*, std::uint32_t, unsigned, std::uint32_t) = nullptr;
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

}  // namespace

FoundDriver find_hip_driver(const SystemView& system) {
  auto library = system.loader->loaded(hip_libraries());
  if (!library)
    return {nullptr, "libamdhip64 is not loaded: HIP is used where the program has loaded it"};
  auto driver = std::make_unique<HipDriver>(std::move(library));
  if (!driver->lacked().empty()) return {nullptr, "libamdhip64 lacks " + driver->lacked()};
  return {std::move(driver)};
}

}  // namespace capstan
