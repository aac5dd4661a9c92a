// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/platform/device/device_memory.hpp"
#include "core/platform/memory/page_locker.hpp"
#include "core/platform/net/shared_library.hpp"

namespace capstan {

/// cuMemHostAlloc and cuMemHostRegister from libcuda, in the first GPU's primary context, which the
/// CUDA runtime uses too: the memory is usable from all GPUs. Null without driver or GPU.
std::unique_ptr<PageLocker> make_cuda_locker(const LibraryLoader& loader = system_loader());
/// hipHostMalloc and hipHostRegister from libamdhip64. Null without runtime or GPU.
std::unique_ptr<PageLocker> make_hip_locker(const LibraryLoader& loader = system_loader());

/// The first that this machine has: CUDA's, HIP's, or mlock.
std::unique_ptr<PageLocker> make_page_locker(const LibraryLoader& loader = system_loader());
/// That of the device's vendor, whose streams wait by such memory alone. Where it has none, the
/// first that this machine has.
std::unique_ptr<PageLocker> make_page_locker(const DeviceBuffer& where);

}  // namespace capstan
