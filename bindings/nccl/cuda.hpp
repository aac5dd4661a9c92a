#pragma once

#include "bindings/nccl/nccl.h"

namespace capstan::nccl {

/// What the run-time library of CUDA that the program has loaded can do: NVIDIA's, or Capstan's
/// stand-in (cudart/). A function that is not there is null.
struct Cuda {
  using Event = struct CUevent_st*;

  int (*get_device)(int*);
  int (*stream_synchronize)(cudaStream_t);
  int (*event_create)(Event*, unsigned);
  int (*event_destroy)(Event);
  int (*event_record)(Event, cudaStream_t);
  int (*stream_wait_event)(cudaStream_t, Event, unsigned);
  int (*launch_host_function)(cudaStream_t, void (*)(void*), void*);
  int (*malloc)(void**, size_t);
  int (*free)(void*);
  int (*stream_fail)(cudaStream_t, int);

  /// Whether streams run host functions that wait for other ranks. NVIDIA's may not: a rank's
  /// functions could keep each other's, and copies of buffers on devices need calls of CUDA.
  bool is_stand_in() const { return stream_fail != nullptr; }
};

/// Looked up once, when it is first needed.
const Cuda& cuda();

/// Throws SystemError with the number for anything but success.
void require_cuda(int result, const char* call);

/// Waits until the stream is empty; a null one only where streams wait for it, too.
void wait_for_stream(cudaStream_t stream);

}  // namespace capstan::nccl
