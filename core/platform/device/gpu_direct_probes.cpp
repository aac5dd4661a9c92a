// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/gpu_direct_probes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "capstan/error.hpp"
#include "core/platform/device/libfabric_environment.hpp"
#include "core/platform/device/libfabric_hmem.hpp"

namespace capstan {
namespace {

constexpr const char* card_remedy =
    "install an RDMA network card (InfiniBand, RoCE, EFA) and its driver; see 'rdma link'";
constexpr const char* stage_remedy = "until then GPU buffers go through pinned host memory";

Finding yes(std::string subject, std::string reason) {
  return {std::move(subject), true, std::move(reason), ""};
}

Finding no(std::string subject, std::string reason, std::string remedy) {
  return {std::move(subject), false, std::move(reason), std::move(remedy)};
}

}  // namespace

GpuDirectProbes::GpuDirectProbes(const SystemView& system)
    : system_(system), vendor_(find_vendor()) {}

bool GpuDirectProbes::exists(const std::string& path) const {
  std::error_code ignored;
  return std::filesystem::exists(system_.root / path, ignored);
}

std::string GpuDirectProbes::first_line(const std::string& path) const {
  std::ifstream file{system_.root / path};
  std::string line;
  std::getline(file, line);
  return line;
}

std::string GpuDirectProbes::contents(const std::string& path) const {
  std::ifstream file{system_.root / path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::vector<std::string> GpuDirectProbes::list(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{system_.root / folder, ignored})
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

/// /proc/modules lists loaded modules; /sys/module also those that are built into the kernel.
bool GpuDirectProbes::has_module(const std::string& name) const {
  if (exists("sys/module/" + name)) return true;
  std::istringstream modules{contents("proc/modules")};
  for (std::string line; std::getline(modules, line);)
    if (line.starts_with(name + " ")) return true;
  return false;
}

std::optional<GpuVendor> GpuDirectProbes::find_vendor() const {
  bool amd = exists("dev/kfd");
  for (const std::string& device : list("sys/bus/pci/devices")) {
    const std::string folder = "sys/bus/pci/devices/" + device;
    const std::string kind = first_line(folder + "/class");
    if (!kind.starts_with("0x03") && !kind.starts_with("0x12")) continue;  // display, accelerator
    const std::string maker = first_line(folder + "/vendor");
    if (maker == "0x10de") return GpuVendor::nvidia;
    if (maker == "0x1002") amd = true;
  }
  if (exists("dev/nvidia0")) return GpuVendor::nvidia;
  return amd ? std::optional{GpuVendor::amd} : std::nullopt;
}

Finding GpuDirectProbes::gpu() const {
  if (vendor_) return yes("GPU", fmt::format("one of {}'s", name_of(*vendor_)));
  return no("GPU", "this machine has no GPU of NVIDIA's or AMD's",
            "if it has one, a container must be given its device files: '--gpus all', '--device "
            "/dev/kfd'");
}

Finding GpuDirectProbes::driver(GpuVendor vendor) const {
  const bool nvidia = vendor == GpuVendor::nvidia;
  if (nvidia && exists("proc/driver/nvidia/version"))
    return yes("GPU driver", first_line("proc/driver/nvidia/version"));
  const std::string module = nvidia ? "nvidia" : "amdgpu";
  if (has_module(module)) return yes("GPU driver", "the kernel has " + module);
  return no("GPU driver", fmt::format("the kernel module {} is not loaded", module),
            fmt::format("install {}'s driver, then 'modprobe {}'", name_of(vendor), module));
}

Finding GpuDirectProbes::network_card() const {
  std::string cards, soft;
  for (const std::string& device : list("sys/class/infiniband")) {
    auto& names = exists("sys/class/infiniband/" + device + "/device") ? cards : soft;
    names += (names.empty() ? "" : ", ") + device;
  }
  if (!cards.empty()) return yes("network card", cards);
  if (!soft.empty())
    return no("network card", fmt::format("{} copies with the CPU, not with hardware", soft),
              card_remedy);
  return no("network card", "this machine has no RDMA device", card_remedy);
}

Finding GpuDirectProbes::kernel() const {
  const std::string release = first_line("proc/sys/kernel/osrelease");
  int major = 0, minor = 0;
  const bool known = std::sscanf(release.c_str(), "%d.%d", &major, &minor) == 2;
  if (known && (major > 5 || (major == 5 && minor >= 12))) return yes("kernel", "Linux " + release);
  return no("kernel",
            fmt::format("Linux {} registers no dma-bufs for RDMA",
                        known ? release : "of an unknown version"),
            "use Linux 5.12 or later");
}

Finding GpuDirectProbes::verbs(const char* function) const {
  const auto library = system_.loader->open({"libibverbs.so.1"});
  if (!library)
    return no("libibverbs", "libibverbs.so.1 is not installed",
              "apt-get install libibverbs1 ibverbs-providers");
  if (library->symbol(function) != nullptr)
    return yes("libibverbs", fmt::format("it has {}", function));
  return no("libibverbs", fmt::format("it has no {}", function), "use rdma-core 34 or later");
}

Finding GpuDirectProbes::dma_buf_export(GpuVendor vendor) const {
  return vendor == GpuVendor::nvidia ? cuda_export() : hip_export();
}

Finding GpuDirectProbes::cuda_export() const {
  constexpr int dma_buf_supported = 124;  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
  const auto library = system_.loader->open({"libcuda.so.1"});
  if (!library)
    return no("dma-buf export", "libcuda.so.1 is not installed", "install NVIDIA's driver");
  if (library->symbol("cuMemGetHandleForAddressRange") == nullptr)
    return no("dma-buf export", "libcuda has no cuMemGetHandleForAddressRange",
              "use driver 515 or later (CUDA 11.7)");
  int (*initialise)(unsigned) = nullptr;
  int (*get_attribute)(int*, int, int) = nullptr;
  library->find(initialise, "cuInit");
  library->find(get_attribute, "cuDeviceGetAttribute");
  int supported = 0;
  if (initialise == nullptr || get_attribute == nullptr || initialise(0) != 0 ||
      get_attribute(&supported, dma_buf_supported, 0) != 0)
    return no("dma-buf export", "the CUDA driver does not start", "see 'nvidia-smi'");
  if (supported != 0) return yes("dma-buf export", "cuMemGetHandleForAddressRange");
  return no("dma-buf export", "this GPU's driver exports no dma-bufs",
            "install NVIDIA's open kernel modules");
}

Finding GpuDirectProbes::hip_export() const {
  if (const auto runtime = system_.loader->open(hip_libraries()))
    if (runtime->symbol("hipMemGetHandleForAddressRange") != nullptr)
      return yes("dma-buf export", "hipMemGetHandleForAddressRange");
  if (const auto hsa = system_.loader->open({"libhsa-runtime64.so.1"}))
    if (hsa->symbol("hsa_amd_portable_export_dmabuf") != nullptr)
      return yes("dma-buf export", "hsa_amd_portable_export_dmabuf");
  return no("dma-buf export",
            "neither libamdhip64 nor libhsa-runtime64 exports dma-bufs, or they are not installed",
            "use ROCm 5.6 or later");
}

Finding GpuDirectProbes::peer_module(GpuVendor vendor) const {
  if (vendor == GpuVendor::nvidia) {
    for (const char* module : {"nvidia_peermem", "nv_peer_mem"})
      if (has_module(module)) return yes("peer module", module);
    return no("peer module", "nvidia_peermem is not loaded", "modprobe nvidia_peermem");
  }
  for (const char* path :
       {"sys/kernel/mm/memory_peers/amdkfd/version", "sys/memory_peers/amdkfd/version"})
    if (exists(path)) return yes("peer module", "amdgpu offers its memory to the RDMA core");
  return no("peer module", "amdgpu does not offer its memory to the RDMA core",
            "build amdgpu-dkms with the RDMA driver's peer memory; or use dma-bufs");
}

Finding GpuDirectProbes::hmem_provider() const {
  prepare_libfabric_environment();
  const auto library = system_.loader->open({"libfabric.so.1"});
  if (!library)
    return no("libfabric", "libfabric.so.1 is not installed", "apt-get install libfabric1");
  std::vector<std::string> providers;
  try {
    providers = hmem_providers(library);
  } catch (const SystemError& error) {
    return no("libfabric", error.what(), stage_remedy);
  }
  if (!providers.empty())
    return yes("libfabric", fmt::format("providers with FI_HMEM: {}", fmt::join(providers, ", ")));
  return no("libfabric", "no provider has FI_HMEM",
            fmt::format("use a libfabric that was built for this GPU, and a card with a provider "
                        "that supports it; {}",
                        stage_remedy));
}

}  // namespace capstan
