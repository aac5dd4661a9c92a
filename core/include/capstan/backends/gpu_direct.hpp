// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/backends/backend.hpp"
#include "capstan/export.hpp"
#include "capstan/gpu_direct.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Has a backend's library use GPUDirect: for "nccl" it sets NCCL_IB_DISABLE=0, for "rccl"
/// RCCL_IB_DISABLE=0 and NCCL_IB_DISABLE=0, which the libraries read when their next communicator
/// is made. Throws SystemError with the reason and the remedy of each route where this machine
/// cannot do it, NotSupported where the backend's transports take no memory of devices (they stage
/// it). Not to be called while other threads use the environment.
void enable_gpu_direct(const Backend& backend, const GpuDirectReport& report = gpu_direct());

}  // namespace CAPSTAN_EXPORT capstan
