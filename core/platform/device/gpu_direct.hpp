// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "capstan/gpu_direct.hpp"
#include "core/platform/net/shared_library.hpp"

namespace capstan {

/// The machine as the probes see it. Tests replace it.
struct SystemView {
  std::filesystem::path root = "/";  ///< /sys, /proc and /dev are below it
  const LibraryLoader* loader = &system_loader();
};

/// Probes the machine now. Loads and initialises the GPU's driver library and libfabric if they are
/// installed, which takes up to seconds and is not undone, so do not call it before a fork(). Sets
/// variables for libfabric unless they are set (prepare_libfabric_environment), so do not call it
/// while other threads use the environment.
GpuDirectReport detect_gpu_direct(const SystemView& system = {});

}  // namespace capstan
