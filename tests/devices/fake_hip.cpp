// SPDX-License-Identifier: Apache-2.0

// A libamdhip64.so for tests: the entry points that Capstan and its tests use.

#include <cstdio>
#include <utility>

#include "tests/devices/fake_device.hpp"

using capstan::fake::devices;
using namespace capstan::fake;

namespace {

thread_local int current_device = 0, last_error = 0, capture_mode = 0;

struct Attributes {
  int type, device;
  void *device_pointer, *host_pointer;
  int managed;
  unsigned flags;
};

}  // namespace

extern "C" {

int fake_knob(const char* name, int change);

int hipInit(unsigned) {
  return success;
}
int hipDeviceGetPCIBusId(char* text, int length, int device) {
  return std::snprintf(text, static_cast<std::size_t>(length), "0000:%x0:00.0", device + 10) > 0
             ? success
             : invalid_value;
}
int hipDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && fake_knob("peerless", 0) == 0;
  return success;
}
int hipExtGetLinkTypeAndHopCount(int device, int peer, std::uint32_t* type, std::uint32_t* hops) {
  if (device == peer) return invalid_value;
  constexpr std::uint32_t pcie = 2, xgmi = 4;
  *type = fake_knob("linked", 0) != 0 ? xgmi : pcie;
  *hops = 1;
  return success;
}
int hipDeviceEnablePeerAccess(int, unsigned) {
  return fake_knob("peers", 1) > 1 ? (last_error = 704) : success;
}
int hipRuntimeGetVersion(int* version) {
  const int asked = fake_knob("version", 0);
  *version = asked != 0 ? asked : 60'342'134;
  return success;
}
int hipGetDeviceCount(int* count) {
  *count = Devices::count;
  return success;
}
int hipGetDevice(int* device) {
  *device = current_device;
  return success;
}
int hipSetDevice(int device) {
  fake_knob("depth", device - current_device);
  current_device = device;
  return success;
}
int hipGetLastError() {
  return std::exchange(last_error, 0);
}
const char* hipGetErrorString(int code) {
  return code == launch_failed ? "unspecified launch failure" : "an error";
}

int hipMemsetAsync(void* pointer, int value, std::size_t size, void* stream) {
  return devices().set(pointer, value, size, stream);
}
int hipThreadExchangeStreamCaptureMode(int* mode) {
  *mode = std::exchange(capture_mode, *mode);
  return success;
}

int hipHostMalloc(void** block, std::size_t size, unsigned) {
  *block = devices().allocate_host(size);
  return success;
}
int hipHostFree(void* block) {
  devices().release_host(block);
  return success;
}
int hipHostRegister(void* begin, std::size_t size, unsigned) {
  return devices().add_host(begin, size);
}
int hipHostUnregister(void* begin) {
  return devices().remove_host(begin);
}

int hipMalloc(void** pointer, std::size_t size) {
  if (devices().take("no_memory")) return out_of_memory;
  *pointer = devices().allocate(size, current_device, nullptr, false, false);
  return *pointer ? success : out_of_memory;
}
int hipExtMallocWithFlags(void** pointer, std::size_t size, unsigned flags) {
  constexpr unsigned fine_grained = 1;
  if (flags != fine_grained) return invalid_value;
  if (devices().take("no_memory")) return out_of_memory;
  *pointer = devices().allocate(size, current_device, nullptr, false);
  return *pointer ? success : out_of_memory;
}
int hipMallocManaged(void** pointer, std::size_t size, unsigned) {
  *pointer = devices().allocate(size, current_device, nullptr, true);
  return success;
}
int hipFree(void* pointer) {
  devices().release(pointer);
  return success;
}
int hipMemcpy(void* to, const void* from, std::size_t size, int) {
  return devices().copy_now(to, from, size);
}

/// Behaves as before version 6 for odd host addresses, and as since version 6 for even ones.
int hipPointerGetAttributes(Attributes* attributes, const void* pointer) {
  const auto memory = devices().find(pointer);
  if (!memory && reinterpret_cast<std::uintptr_t>(pointer) % 2 == 1)
    return last_error = invalid_value;
  *attributes = {};
  if (!memory) return success;
  const bool old = fake_knob("version", 0) != 0;
  attributes->type = memory->managed ? (old ? 1 : 3) : (old ? 1 : 2);
  attributes->device = memory->device;
  attributes->managed = memory->managed;
  return success;
}

int hipDeviceFlushGPUDirectRDMAWrites(int target, int scope) {
  return target == 0 && scope == 100 ? success : invalid_value;
}

int hipPointerGetAttribute(void* value, int attribute, void* pointer) {
  return last_error = devices().describe_allocation(pointer, attribute, value);
}

int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  *stream = devices().make_stream(nullptr, current_device);
  return flags == 1 ? success : invalid_value;
}
int hipStreamQuery(void* stream) {
  return devices().query(stream);
}
int hipMemcpyAsync(void* to, const void* from, std::size_t size, int kind, void* stream) {
  if (kind != (devices().find(to) ? 1 : 2)) return invalid_value;
  return devices().start_copy(to, from, size, stream, nullptr, current_device);
}

int hipIpcGetMemHandle(IpcHandle* handle, void* pointer) {
  return devices().describe(pointer, *handle) ? success : invalid_value;
}
int hipIpcOpenMemHandle(void** pointer, IpcHandle handle, unsigned flags) {
  *pointer = devices().open(handle);
  return *pointer && flags == 1 ? success : invalid_value;
}
int hipIpcCloseMemHandle(void* pointer) {
  devices().release(pointer);
  return success;
}
int hipMemGetHandleForAddressRange(void* handle, void* pointer, std::size_t size, int type,
                                   unsigned long long) {
  if (type != 1 || size % 4096 != 0) return invalid_value;
  *static_cast<int*>(handle) = devices().export_descriptor(pointer);
  return *static_cast<int*>(handle) >= 0 ? success : invalid_value;
}

int hipStreamGetDevice(void* stream, int* device) {
  *device = static_cast<Stream*>(stream)->device;
  return success;
}
int hipStreamIsCapturing(void*, int* status) {
  *status = fake_knob("capturing", 0);
  return success;
}
int hipStreamWriteValue32(void* stream, void* word, std::uint32_t value, unsigned flags) {
  if (flags != 0 || !devices().is_pinned(word, 4)) return invalid_value;
  streams().raise_word(static_cast<Stream*>(stream), static_cast<std::uint32_t*>(word), value);
  return success;
}
int hipStreamWaitValue32(void* stream, void* flag, std::uint32_t value, unsigned flags,
                         std::uint32_t mask) {
  if (flags != 0 || mask != ~0U || !devices().is_pinned(flag, 4)) return invalid_value;
  streams().wait_for_flag(static_cast<Stream*>(stream), static_cast<std::uint32_t*>(flag), value);
  return success;
}
int hipEventCreateWithFlags(void** event, unsigned flags) {
  constexpr unsigned without_time = 2;
  *event = streams().make_event(flags == 0);
  fake_knob("events", 1);
  return flags == 0 || flags == without_time ? success : invalid_value;
}
int hipEventDestroy(void*) {
  fake_knob("events", -1);
  return success;
}
int hipEventRecord(void* event, void* stream) {
  streams().record(static_cast<Event*>(event), static_cast<Stream*>(stream));
  return success;
}
int hipEventQuery(void* event) {
  return streams().query(static_cast<Event*>(event));
}
int hipEventElapsedTime(float* milliseconds, void* from, void* to) {
  return streams().elapsed(static_cast<Event*>(from), static_cast<Event*>(to), *milliseconds);
}
int hipStreamWaitEvent(void* stream, void* event, unsigned) {
  streams().wait_for_event(static_cast<Stream*>(stream), static_cast<Event*>(event));
  return success;
}

int hipModuleLoadData(void** module, const void* image) {
  if (devices().take("imageless")) return not_found;
  static int loaded = 0;
  *module = &loaded;
  return image ? success : invalid_value;
}
int hipModuleGetFunction(void** kernel, void*, const char* name) {
  if (devices().take("kernelless")) return not_found;
  *kernel = kernel_named(name);
  return *kernel ? success : not_found;
}
int hipModuleLaunchKernel(void* kernel, unsigned blocks, unsigned, unsigned, unsigned threads,
                          unsigned, unsigned, unsigned, void* stream, void**, void** extra) {
  const LaunchArguments arguments{extra};
  return devices().launch(kernel, blocks, threads, arguments.data, arguments.bytes, stream);
}
int hipDeviceGetAttribute(int* value, int attribute, int) {
  *value = devices().multiprocessors();
  return attribute == 63 ? success : invalid_value;
}
}
