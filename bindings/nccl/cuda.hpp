// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/nccl/nccl.h"

namespace capstan::nccl {

/// Handles of default streams, beside null: cudaStreamLegacy and cudaStreamPerThread.
inline const auto legacy_stream = reinterpret_cast<cudaStream_t>(1);
inline const auto thread_stream = reinterpret_cast<cudaStream_t>(2);

/// The functions of the run-time library that the program has loaded: NVIDIA's, Capstan's stand-in
/// for it (cudart/), or AMD's. Programs that nvcc links contain the library, hidden from other
/// code: the driver then stands in for it, as far as it can. A function that is not there is null.
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
  int (*read_device)(void*, const void*, size_t);
  bool is_amd;

  /// Whether streams run host functions that wait for other ranks. NVIDIA's may not: a rank's
  /// functions could keep each other's, and copies of buffers on devices need calls of CUDA.
  bool is_stand_in() const { return stream_fail != nullptr; }
};

/// Looked up once, when it is first needed.
const Cuda& cuda();

/// The device that is current for this thread; -1 if none is.
int current_device();

/// Throws SystemError with the number for anything but success.
void require_cuda(int result, const char* call);

/// Whether this process has a vendor's driver, and no stand-in for the run-time library.
bool look_for_devices();

/// Waits until the stream is empty: a default one, too, where it could hold anything.
void drain(cudaStream_t stream);

}  // namespace capstan::nccl
