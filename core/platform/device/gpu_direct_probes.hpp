// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/platform/device/gpu_direct.hpp"

namespace capstan {

/// The probes of detect_gpu_direct().
class GpuDirectProbes {
 public:
  explicit GpuDirectProbes(const SystemView& system);

  /// The vendor of the GPU on the PCI bus, or of its device file if a container hides the bus.
  std::optional<GpuVendor> vendor() const { return vendor_; }

  Finding gpu() const;
  Finding driver(GpuVendor vendor) const;
  /// Looks for an RDMA device in hardware: Soft-RoCE and soft iWARP copy with the CPU, which cannot
  /// access a GPU's memory.
  Finding network_card() const;
  /// Needs Linux 5.12, the first that registers dma-bufs for RDMA.
  Finding kernel() const;
  /// Looks for this function in libibverbs.
  Finding verbs(const char* function) const;
  Finding dma_buf_export(GpuVendor vendor) const;
  Finding peer_module(GpuVendor vendor) const;
  /// Looks for a provider of libfabric that takes device memory.
  Finding hmem_provider() const;

 private:
  bool exists(const std::string& path) const;
  std::string first_line(const std::string& path) const;
  std::string contents(const std::string& path) const;
  std::vector<std::string> list(const std::string& folder) const;
  bool has_module(const std::string& name) const;
  std::optional<GpuVendor> find_vendor() const;
  Finding cuda_export() const;
  Finding hip_export() const;

  const SystemView& system_;
  std::optional<GpuVendor> vendor_;
};

}  // namespace capstan
