// SPDX-License-Identifier: Apache-2.0

// A libcuda.so.1 for tests: the entry points that Capstan and its tests use.

#include <atomic>
#include <cstdio>
#include <utility>
#include <vector>

#include "tests/devices/fake_device.hpp"

using capstan::fake::devices;
using namespace capstan::fake;
using DevicePointer = unsigned long long;
using Context = void*;

namespace {

std::atomic<bool> initialized = false;
int primary_contexts[Devices::count];
thread_local std::vector<Context> current;
thread_local int capture_mode = 0;

int device_of(Context context) {
  return context == &primary_contexts[1] ? 1 : 0;
}
void* at(DevicePointer pointer) {
  return reinterpret_cast<void*>(pointer);
}
Context now() {
  return current.empty() ? nullptr : current.back();
}
/// Behind handles 0 and 1 is the legacy stream of the current device, behind 2 the thread's own.
Stream* actual(void* handle) {
  static Stream* const legacy[] = {streams().make(&primary_contexts[0], 0),
                                   streams().make(&primary_contexts[1], 1)};
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number < 2) return legacy[device_of(now())];
  if (number > 2) return static_cast<Stream*>(handle);
  thread_local Stream* const own = streams().make(now(), device_of(now()));
  return own;
}
int copy(void* to, const void* from, std::size_t size, void* stream) {
  if (!now()) return invalid_context;
  return devices().start_copy(to, from, size, actual(stream), now(), device_of(now()));
}

}  // namespace

extern "C" {

int fake_knob(const char* name, int change);
/// The stream behind a handle, a default one, too: for fake_launch() and fake_synchronize().
void* fake_stream(void* handle) {
  return actual(handle);
}

int cuInit(unsigned) {
  initialized = true;
  return success;
}
int cuDeviceGetCount(int* count) {
  *count = Devices::count;
  return initialized ? success : not_initialized;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  return std::snprintf(text, static_cast<std::size_t>(length), "0000:%X0:00.0", device + 10) > 0
             ? success
             : invalid_value;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && fake_knob("peerless", 0) == 0;
  return success;
}
int cuDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  if (device == peer) return invalid_value;
  constexpr int native_atomics = 3;
  *value = attribute == native_atomics && fake_knob("linked", 0) != 0;
  return success;
}
int cuCtxGetDevice(int* device) {
  *device = device_of(now());
  return now() ? success : invalid_context;
}
int cuCtxEnablePeerAccess(Context, unsigned) {
  return fake_knob("peers", 1) > 1 ? 704 : success;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return initialized ? success : not_initialized;
}
int cuDevicePrimaryCtxRetain(Context* context, int device) {
  *context = &primary_contexts[device];
  return initialized ? success : not_initialized;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  return success;
}
/// A second context of device 0, beside its primary one.
int cuCtxCreate_v2(Context* context, unsigned, int) {
  *context = new int{};
  return success;
}
int cuCtxPushCurrent_v2(Context context) {
  current.push_back(context);
  fake_knob("depth", 1);
  return success;
}
int cuCtxPopCurrent_v2(Context* context) {
  if (current.empty()) return invalid_context;
  *context = now();
  current.pop_back();
  fake_knob("depth", -1);
  return success;
}

int cuMemsetD8Async(DevicePointer pointer, unsigned char value, std::size_t size, void* stream) {
  return now() ? devices().set(at(pointer), value, size, actual(stream)) : invalid_context;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  *mode = std::exchange(capture_mode, *mode);
  return success;
}

int cuMemHostAlloc(void** block, std::size_t size, unsigned) {
  if (!now()) return invalid_context;
  *block = devices().allocate_host(size);
  return success;
}
int cuMemFreeHost(void* block) {
  devices().release_host(block);
  return success;
}
int cuMemHostRegister_v2(void* begin, std::size_t size, unsigned) {
  return devices().add_host(begin, size);
}
int cuMemHostUnregister(void* begin) {
  return devices().remove_host(begin);
}
int cuGetErrorString(int code, const char** text) {
  *text = code == launch_failed ? "unspecified launch failure" : "an error";
  return success;
}

/// Without a current context, allocates from a pool on device 1.
int cuMemAlloc_v2(DevicePointer* pointer, std::size_t size) {
  if (devices().take("no_memory")) return out_of_memory;
  std::byte* const made = devices().allocate(size, now() ? device_of(now()) : 1, now(), false);
  *pointer = reinterpret_cast<DevicePointer>(made);
  return made ? success : out_of_memory;
}
int cuMemAllocManaged(DevicePointer* pointer, std::size_t size, unsigned) {
  *pointer = reinterpret_cast<DevicePointer>(devices().allocate(size, 0, now(), true));
  return success;
}
int cuMemFree_v2(DevicePointer pointer) {
  devices().release(at(pointer));
  return success;
}
int cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t size) {
  return devices().copy_now(to, at(from), size);
}
int cuMemcpy(DevicePointer to, DevicePointer from, std::size_t size) {
  return devices().copy_now(at(to), at(from), size);
}

int cuPointerGetAttributes(unsigned count, const int* attributes, void** values,
                           DevicePointer pointer) {
  if (!initialized) return not_initialized;
  const auto memory = devices().find(at(pointer));
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == 1) *static_cast<Context*>(values[i]) = memory ? memory->context : nullptr;
    if (attributes[i] == 2) *static_cast<int*>(values[i]) = memory ? 2 : 0;
    devices().describe_allocation(at(pointer), attributes[i], values[i]);
    if (attributes[i] == 8) *static_cast<int*>(values[i]) = memory && memory->managed;
    if (attributes[i] == 9) *static_cast<int*>(values[i]) = memory ? memory->device : -2;
  }
  return success;
}

int cuStreamCreate(void** stream, unsigned flags) {
  if (!now() || flags != 1) return invalid_value;
  *stream = devices().make_stream(now(), device_of(now()));
  return success;
}
int cuStreamQuery(void* stream) {
  return devices().query(actual(stream));
}
int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t size, void* stream) {
  return copy(to, at(from), size, stream);
}
int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t size, void* stream) {
  return copy(at(to), from, size, stream);
}

int cuIpcGetMemHandle(IpcHandle* handle, DevicePointer pointer) {
  return devices().describe(at(pointer), *handle) ? success : invalid_value;
}
int cuIpcOpenMemHandle_v2(DevicePointer* pointer, IpcHandle handle, unsigned flags) {
  *pointer = reinterpret_cast<DevicePointer>(devices().open(handle));
  return *pointer && flags == 1 ? success : invalid_value;
}
int cuIpcCloseMemHandle(DevicePointer pointer) {
  devices().release(at(pointer));
  return success;
}
int cuMemGetHandleForAddressRange(void* handle, DevicePointer pointer, std::size_t size, int type,
                                  unsigned long long) {
  if (type != 1 || size % 4096 != 0) return invalid_value;
  *static_cast<int*>(handle) = devices().export_descriptor(at(pointer));
  return *static_cast<int*>(handle) >= 0 ? success : invalid_value;
}

int cuFlushGPUDirectRDMAWrites(int target, int scope) {
  fake_knob("flushes", 1);
  return now() && target == 0 && scope == 100 ? success : invalid_value;
}

int cuStreamGetCtx(void* stream, Context* context) {
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
  *context = is_default ? now() : static_cast<Stream*>(stream)->context;
  return *context ? success : invalid_context;
}
int cuStreamIsCapturing(void*, int* status) {
  *status = fake_knob("capturing", 0);
  return success;
}
int cuStreamWaitValue32_v2(void* stream, DevicePointer flag, std::uint32_t value, unsigned flags) {
  if (flags != 0 || !devices().is_pinned(at(flag), 4)) return invalid_value;
  streams().wait_for_flag(actual(stream), static_cast<std::uint32_t*>(at(flag)), value);
  return success;
}
int cuStreamWriteValue32_v2(void* stream, DevicePointer word, std::uint32_t value, unsigned flags) {
  if (flags != 0 || !devices().is_pinned(at(word), 4)) return invalid_value;
  streams().raise_word(actual(stream), static_cast<std::uint32_t*>(at(word)), value);
  return success;
}
int cuEventCreate(void** event, unsigned flags) {
  constexpr unsigned without_time = 2;
  *event = streams().make_event(flags == 0);
  fake_knob("events", 1);
  return now() && (flags == 0 || flags == without_time) ? success : invalid_value;
}
int cuEventDestroy_v2(void*) {
  fake_knob("events", -1);
  return success;
}
int cuEventRecord(void* event, void* stream) {
  streams().record(static_cast<Event*>(event), actual(stream));
  return success;
}
int cuEventQuery(void* event) {
  return streams().query(static_cast<Event*>(event));
}
int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  return streams().elapsed(static_cast<Event*>(from), static_cast<Event*>(to), *milliseconds);
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  streams().wait_for_event(actual(stream), static_cast<Event*>(event));
  return success;
}

int cuModuleLoadData(void** module, const void* image) {
  if (devices().take("imageless")) return not_found;
  static int loaded = 0;
  *module = &loaded;
  return image ? success : invalid_value;
}
int cuModuleGetFunction(void** kernel, void*, const char* name) {
  if (devices().take("kernelless")) return not_found;
  *kernel = kernel_named(name);
  return *kernel ? success : not_found;
}
int cuLaunchKernel(void* kernel, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, void* stream, void**, void** extra) {
  const LaunchArguments arguments{extra};
  if (!stream) return invalid_value;  // the library has streams of its own
  return devices().launch(kernel, blocks, threads, arguments.data, arguments.bytes, actual(stream));
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int multiprocessors = 16, mps_enabled = 133;
  if (attribute == mps_enabled) return *value = fake_knob("takes_turns", 0) == 0, success;
  *value = devices().multiprocessors();
  return attribute == multiprocessors ? success : invalid_value;
}
}
