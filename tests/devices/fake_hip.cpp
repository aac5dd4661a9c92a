// A libamdhip64.so for tests: the entry points that Capstan and its tests use.

#include <utility>

#include "tests/devices/fake_device.hpp"

using capstan::fake::devices;
using namespace capstan::fake;

namespace {

thread_local int current_device = 0, last_error = 0;

struct Attributes {
  int type, device;
  void *device_pointer, *host_pointer;
  int managed;
  unsigned flags;
};

}  // namespace

extern "C" {

int fake_knob(const char* name, int change);

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
}
