// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/platform/device/gpu_direct.hpp"
#include "core/platform/net/file_descriptor.hpp"

// Declared in <infiniband/verbs.h>, which users of a registration include.
struct ibv_pd;
struct ibv_mr;

namespace capstan {

/// The functions that register a GPU's memory with a network card. Null where the machine does not
/// have them. Tests supply their own.
struct GpuDirectFunctions {
  // libibverbs
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int access) = nullptr;
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, std::uint64_t offset, std::size_t, std::uint64_t iova, int fd,
                           int access) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  // The GPU's libraries have one of these at least; 0 is success
  /// DeviceDriver::export_dma_buf(): a descriptor of whole pages.
  std::function<int(const void* pages, std::size_t bytes, int& descriptor)> export_pages{};
  int (*hsa_export)(const void* address, std::size_t, int* fd, std::uint64_t* offset) = nullptr;

  std::string dma_buf_obstacle;      ///< why this route is closed; empty when it is open
  std::string peer_memory_obstacle;  ///< likewise
};

/// Loads the functions from the machine's libraries, for the routes that are open in the report;
/// all but `export_pages`, which the driver of the memory has.
GpuDirectFunctions load_gpu_direct(const GpuDirectReport& report,
                                   const LibraryLoader& loader = system_loader());

/// Memory of a GPU.
struct DeviceMemory {
  std::uint64_t address = 0;
  std::size_t length = 0;
};

/// Owns the registration of GPU memory with a network card, and says how the card reaches it.
class DeviceRegistration {
 public:
  enum class Path { dma_buf, peer_memory, staged };

  DeviceRegistration(DeviceRegistration&&) noexcept = default;
  DeviceRegistration& operator=(DeviceRegistration&&) noexcept = default;

  Path path() const { return path_; }
  /// Null when the memory has to be staged through pinned host memory (see PinnedMemory).
  ibv_mr* region() const { return region_.get(); }
  /// Why a better path was not taken; empty when the best was.
  const std::string& reason() const { return reason_; }

 private:
  friend DeviceRegistration register_device_memory(const GpuDirectFunctions& functions,
                                                   ibv_pd* domain, DeviceMemory memory, int access);
  using Region = std::unique_ptr<ibv_mr, int (*)(ibv_mr*)>;
  DeviceRegistration(Path path, Region region, std::string reason)
      : path_(path), region_(std::move(region)), reason_(std::move(reason)) {}

  Path path_;
  Region region_;
  std::string reason_;
};

/// Registers memory of a GPU in a protection domain: by dma-buf, or else by peer memory. If neither
/// works, the result says why, and the caller stages. `access` are IBV_ACCESS flags. Remote keys
/// are for the addresses of the GPU's memory. Does not throw for what the machine lacks.
DeviceRegistration register_device_memory(const GpuDirectFunctions& functions, ibv_pd* domain,
                                          DeviceMemory memory, int access);

}  // namespace capstan
