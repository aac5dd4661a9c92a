// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/export.hpp"

// Queries about devices, for bindings that choose between a communicator and StreamCollectives. All
// are thread-safe. A program that calls Capstan itself needs none of them.

namespace CAPSTAN_EXPORT capstan {

/// Whether this process has a driver of devices, CUDA's or HIP's. Looks for one that has been
/// loaded meanwhile; loads none on a machine without devices.
bool has_device_driver();

/// Whether StreamCollectives takes memory at this address: memory of a device that the host cannot
/// access. False for page-locked and managed memory, and in a process without a driver.
bool is_device_memory(const void* address);

/// The device that has such memory, as its vendor numbers devices; -1 for other memory.
int device_with(const void* memory);

/// Whether this is the handle of a default stream: null, and in CUDA cudaStreamLegacy (1) and
/// cudaStreamPerThread (2).
bool is_default_stream(void* stream);

/// Waits until all that is in a stream now is done. Default streams are those of the device that
/// has `memory`; if that is null, of the device that is current for the thread, and nothing waits
/// where there is none. Throws InvalidArgument for a stream that no driver knows, or that is
/// captured into a graph; SystemError when the driver fails.
void wait_for_stream(void* stream, const void* memory = nullptr);

/// Orders two streams of the device that has `memory`: later work in `last` begins when all work
/// that `first` holds now is done. Throws InvalidArgument if no device has it; SystemError when the
/// driver fails.
void order_streams(void* first, void* last, const void* memory);

}  // namespace CAPSTAN_EXPORT capstan
