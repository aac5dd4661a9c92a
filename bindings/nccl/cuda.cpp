#include "bindings/nccl/cuda.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "capstan/error.hpp"

namespace capstan::nccl {
namespace {

/// The program's own symbols come first; programs in Python load libraries for themselves.
void* loaded_library() {
  if (::dlsym(RTLD_DEFAULT, "cudaStreamSynchronize")) return RTLD_DEFAULT;
  for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})
    if (void* library = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return library;
  return RTLD_DEFAULT;
}

Cuda find() {
  void* const library = loaded_library();
  const auto look_up = [&](auto*& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
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

void wait_for_stream(cudaStream_t stream) {
  if (!stream && !cuda().is_stand_in()) return;
  if (!cuda().stream_synchronize)
    throw InvalidArgument("the call has a stream, but no libcudart is loaded: pass a null stream");
  require_cuda(cuda().stream_synchronize(stream), "cudaStreamSynchronize");
}

}  // namespace capstan::nccl
