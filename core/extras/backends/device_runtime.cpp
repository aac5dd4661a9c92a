// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/device_runtime.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <vector>

#include "capstan/backends/errors.hpp"

namespace capstan {
namespace {

constexpr int not_ready = 600;              // cudaErrorNotReady, hipErrorNotReady
constexpr unsigned waits_for_no_other = 1;  // cudaStreamNonBlocking
constexpr unsigned without_timing = 2;      // cudaEventDisableTiming
constexpr int by_address = 4;               // cudaMemcpyDefault

std::vector<std::string> names(bool cuda) {
  if (cuda) return {"libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
  return {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
}

void* open(const std::vector<std::string>& libraries, bool cuda) {
  for (const std::string& library : libraries)
    if (void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
      return handle;
  const char* const vendor = cuda ? "CUDA" : "HIP";
  throw NotSupported(vendor, fmt::format("the runtime of {} is needed and was not found ({}): "
                                         "install it where the loader finds it",
                                         vendor, fmt::join(libraries, ", ")));
}

}  // namespace

std::shared_ptr<DeviceRuntime> DeviceRuntime::load(DeviceType type, const std::string& path) {
  const bool cuda = type == DeviceType::cuda;
  void* const library = open(path.empty() ? names(cuda) : std::vector{path}, cuda);
  auto runtime = std::make_shared<DeviceRuntime>();
  runtime->name_ = cuda ? "CUDA" : "HIP";
  runtime->find(library, cuda);
  return runtime;
}

void DeviceRuntime::find(void* library, bool cuda) {
  const auto get = [&](auto*& function, const std::string& name) {
    const std::string symbol = (cuda ? "cuda" : "hip") + name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        ::dlsym(library, symbol.c_str()));
    if (!function)
      throw NotSupported(name_, fmt::format("the runtime of {} has no {}: install another version",
                                            name_, symbol));
  };
  get(functions_.set_device, "SetDevice");
  get(functions_.stream_create, "StreamCreateWithFlags");
  get(functions_.stream_destroy, "StreamDestroy");
  get(functions_.event_create, "EventCreateWithFlags");
  get(functions_.event_record, "EventRecord");
  get(functions_.event_query, "EventQuery");
  get(functions_.event_destroy, "EventDestroy");
  get(functions_.malloc, "Malloc");
  get(functions_.free, "Free");
  get(functions_.host_malloc, cuda ? "HostAlloc" : "HostMalloc");
  get(functions_.host_free, cuda ? "FreeHost" : "HostFree");
  get(functions_.memcpy, "Memcpy");
  get(functions_.error_string, "GetErrorString");
}

void DeviceRuntime::require(int code, std::string_view call) const {
  if (code != 0)
    throw BackendError(
        name_, code,
        fmt::format("{} failed in {}: {} ({})", name_, call, functions_.error_string(code), code));
}

void DeviceRuntime::use(int device) const {
  require(functions_.set_device(device), "SetDevice");
}

void* DeviceRuntime::make_stream() const {
  void* stream = nullptr;
  require(functions_.stream_create(&stream, waits_for_no_other), "StreamCreateWithFlags");
  return stream;
}

void DeviceRuntime::free_stream(void* stream) const noexcept {
  functions_.stream_destroy(stream);
}

void* DeviceRuntime::record_event(void* stream) const {
  void* event = nullptr;
  require(functions_.event_create(&event, without_timing), "EventCreateWithFlags");
  const int code = functions_.event_record(event, stream);
  if (code != 0) functions_.event_destroy(event);
  require(code, "EventRecord");
  return event;
}

bool DeviceRuntime::has_ended(void* event) const {
  const int code = functions_.event_query(event);
  if (code == not_ready) return false;
  require(code, "EventQuery");
  return true;
}

void DeviceRuntime::free_event(void* event) const noexcept {
  functions_.event_destroy(event);
}

void* DeviceRuntime::allocate(std::size_t bytes) const {
  void* memory = nullptr;
  require(functions_.malloc(&memory, bytes), "Malloc");
  return memory;
}

void DeviceRuntime::free(void* memory) const noexcept {
  functions_.free(memory);
}

std::shared_ptr<std::byte> DeviceRuntime::pinned(std::size_t bytes) const {
  void* memory = nullptr;
  require(functions_.host_malloc(&memory, std::max<std::size_t>(bytes, 1), 0), "HostAlloc");
  return {static_cast<std::byte*>(memory),
          [free = functions_.host_free](std::byte* pinned) { free(pinned); }};
}

void DeviceRuntime::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes > 0) require(functions_.memcpy(to, from, bytes, by_address), "Memcpy");
}

}  // namespace capstan
