// SPDX-License-Identifier: Apache-2.0
#include "bindings/nccl/cuda.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <type_traits>

#include "capstan/async/devices.hpp"
#include "capstan/error.hpp"

namespace capstan::nccl {
namespace {

/// Whether look_for_devices() has found any: programs without them pay for no more than reading it.
std::atomic<bool> devices_seen = false;

/// The program's own symbols come first; programs in Python load libraries for themselves.
void* loaded_library() {
  if (::dlsym(RTLD_DEFAULT, "cudaStreamSynchronize")) return RTLD_DEFAULT;
  for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})
    if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return library;
  return RTLD_DEFAULT;
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
  void* const library = loaded_library();
  const auto look_up = [&](auto*& function, const char* name) {
    look_up_in(library, function, name);
  };
  Cuda found{};
  look_up(found.get_device, "cudaGetDevice");
  look_up(found.stream_synchronize, "cudaStreamSynchronize");
  look_up(found.event_create, "cudaEventCreateWithFlags");
  look_up(found.event_destroy, "cudaEventDestroy");
  look_up(found.event_record, "cudaEventRecord");
  look_up(found.stream_wait_event, "cudaStreamWaitEvent");
  look_up(found.launch_host_function, "cudaLaunchHostFunc");
  look_up(found.malloc, "cudaMalloc");
  look_up(found.free, "cudaFree");
  look_up(found.stream_fail, "cudaCapstanStreamFail");
  if (!found.is_stand_in()) ask_driver(found);
  return found;
}

}  // namespace

const Cuda& cuda() {
  static const Cuda found = find();
  return found;
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
    throw InvalidArgument("the call has a stream, but no CUDA is loaded: pass a null stream");
  require_cuda(cuda().stream_synchronize(stream), "cudaStreamSynchronize");
}

}  // namespace capstan::nccl
