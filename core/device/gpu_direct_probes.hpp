#pragma once

#include "core/device/gpu_direct.hpp"

namespace capstan {

/// The single questions of detect_gpu_direct().
class GpuDirectProbes {
 public:
  explicit GpuDirectProbes(const SystemView& system);

  /// Of the GPU on the PCI bus, or by its device file where a container hides the bus.
  std::optional<GpuVendor> vendor() const { return vendor_; }

  Finding gpu() const;
  Finding driver(GpuVendor vendor) const;
  /// One with hardware behind it: Soft-RoCE and soft iWARP copy with the CPU, which cannot reach
  /// into a GPU.
  Finding network_card() const;
  /// Linux 5.12 was the first to register dma-bufs for RDMA.
  Finding kernel() const;
  /// libibverbs with this function.
  Finding verbs(const char* function) const;
  Finding dma_buf_export(GpuVendor vendor) const;
  Finding peer_module(GpuVendor vendor) const;
  /// A provider of libfabric that takes device memory.
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
