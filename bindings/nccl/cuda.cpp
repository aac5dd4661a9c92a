// SPDX-License-Identifier: Apache-2.0
#include "bindings/nccl/cuda.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <string>
#include <type_traits>
#include <vector>

#include "capstan/async/devices.hpp"
#include "capstan/error.hpp"

namespace capstan::nccl {
namespace {

/// Whether look_for_devices() has found any: programs without them pay for no more than reading it.
std::atomic<bool> devices_seen = false;

/// A vendor's run-time library. Functions of the two have the same names behind the prefix, and the
/// same form.
struct Runtime {
  const char* prefix;
  std::vector<const char*> files;
};
const Runtime runtimes[] = {
    {"cuda", {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}},
    {"hip", {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}},
};

/// A run-time library where it is loaded.
struct Loaded {
  const Runtime* runtime;
  void* library;
};

/// The program's own symbols come first; programs in Python load libraries for themselves.
Loaded loaded_library() {
  for (const Runtime& runtime : runtimes) {
    const std::string known = std::string{runtime.prefix} + "StreamSynchronize";
    if (::dlsym(RTLD_DEFAULT, known.c_str())) return {&runtime, RTLD_DEFAULT};
    for (const char* name : runtime.files)
      if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return {&runtime, library};
  }
  return {&runtimes[0], RTLD_DEFAULT};
}

/// Keeps what has been found before.
template <class Function>
void look_up_in(void* library, Function*& function, const char* name) {
  if (!function) function = reinterpret_cast<Function*>(::dlsym(library, name));
}

/// Functions of the same form as those of the run-time library.
void ask_driver(Cuda& found) {
  if (!has_device_driver()) return;  // loads it on a machine with devices
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;
  look_up_in(driver, found.get_device, "cuCtxGetDevice");
  look_up_in(driver, found.read_device, "cuMemcpyDtoH_v2");
  if (found.malloc && found.free) return;
  found.malloc = nullptr, found.free = nullptr;  // both of one library
  look_up_in(driver, found.malloc, "cuMemAlloc_v2");
  look_up_in(driver, found.free, "cuMemFree_v2");
}

Cuda find() {
  const auto [runtime, library] = loaded_library();
  const auto look_up = [&, library = library, prefix = std::string{runtime->prefix}](
                           auto*& function, const char* name) {
    look_up_in(library, function, (prefix + name).c_str());
  };
  Cuda found{};
  found.is_amd = runtime != &runtimes[0];
  look_up(found.get_device, "GetDevice");
  look_up(found.stream_synchronize, "StreamSynchronize");
  look_up(found.event_create, "EventCreateWithFlags");
  look_up(found.event_destroy, "EventDestroy");
  look_up(found.event_record, "EventRecord");
  look_up(found.stream_wait_event, "StreamWaitEvent");
  look_up(found.launch_host_function, "LaunchHostFunc");
  look_up(found.malloc, "Malloc");
  look_up(found.free, "Free");
  look_up(found.stream_fail, "CapstanStreamFail");
  look_up(found.read_device, "MemcpyDtoH");  // AMD's, which needs no driver beside it
  if (!found.is_stand_in()) ask_driver(found);
  return found;
}

}  // namespace

const Cuda& cuda() {
  static const Cuda found = find();
  return found;
}

int current_device() {
  int device = 0;
  return cuda().get_device && cuda().get_device(&device) == 0 ? device : -1;
}

void require_cuda(int result, const char* call) {
  if (result != 0) throw SystemError(fmt::format("{} failed with {}", call, result));
}

bool look_for_devices() {
  if (!cuda().is_stand_in() && has_device_driver()) devices_seen = true;
  return devices_seen;
}

void drain(cudaStream_t stream) {
  if (devices_seen) return wait_for_stream(stream);
  if (!stream && !cuda().is_stand_in()) return;
  if (!cuda().stream_synchronize)
    throw InvalidArgument(
        "the call has a stream, but neither CUDA nor HIP is loaded: pass a null stream");
  require_cuda(cuda().stream_synchronize(stream), "cudaStreamSynchronize");
}

}  // namespace capstan::nccl
