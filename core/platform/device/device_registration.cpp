// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/device_registration.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "core/platform/memory/registration/address_range.hpp"

namespace capstan {
namespace {

std::string errno_text() {
  return std::generic_category().message(errno);
}

std::string obstacle_of(const GpuDirectReport& report, GpuDirectRoute route) {
  const RouteReport* found = report.find(route);
  if (found == nullptr) return "nobody has looked for it";
  const Finding* obstacle = found->obstacle();
  return obstacle != nullptr ? obstacle->reason : "";
}

/// A dma-buf of whole pages, and where in it the memory begins.
struct DmaBuf {
  FileDescriptor fd;
  std::uint64_t offset = 0;
};

/// Sets `error` when the GPU's library fails.
DmaBuf export_dma_buf(const GpuDirectFunctions& functions, DeviceMemory memory,
                      std::string& error) {
  int fd = -1, code = 0;
  DmaBuf exported;
  const AddressRange pages =
      rounded_out({memory.address, memory.address + memory.length}, page_size());
  if (!functions.export_pages && functions.hsa_export == nullptr) {
    error = "no library exports dma-bufs";
    return exported;
  }
  if (functions.export_pages) {
    code = functions.export_pages(pages.data(), pages.size().value(), fd);
    exported.offset = memory.address - pages.begin;
  }
  if (fd < 0 && functions.hsa_export != nullptr) {
    const AddressRange exact{memory.address, memory.address + memory.length};
    code = functions.hsa_export(exact.data(), memory.length, &fd, &exported.offset);
  }
  exported.fd = FileDescriptor{fd};
  if (code != 0 || fd < 0)
    error = fmt::format("the GPU's driver exports no dma-buf (code {})", code);
  return exported;
}

/// Registers a dma-buf. The registration keeps it, so that its descriptor can be closed.
ibv_mr* try_dma_buf(const GpuDirectFunctions& functions, ibv_pd* domain, DeviceMemory memory,
                    int access, std::string& error) {
  if (functions.reg_dmabuf_mr == nullptr || !functions.dma_buf_obstacle.empty()) {
    error =
        functions.dma_buf_obstacle.empty() ? "no ibv_reg_dmabuf_mr" : functions.dma_buf_obstacle;
    return nullptr;
  }
  const DmaBuf exported = export_dma_buf(functions, memory, error);
  if (!error.empty()) return nullptr;
  ibv_mr* region = functions.reg_dmabuf_mr(domain, exported.offset, memory.length, memory.address,
                                           exported.fd.get(), access);
  if (region == nullptr) error = "ibv_reg_dmabuf_mr: " + errno_text();
  return region;
}

ibv_mr* try_peer_memory(const GpuDirectFunctions& functions, ibv_pd* domain, DeviceMemory memory,
                        int access, std::string& error) {
  if (functions.reg_mr == nullptr || !functions.peer_memory_obstacle.empty()) {
    error =
        functions.peer_memory_obstacle.empty() ? "no ibv_reg_mr" : functions.peer_memory_obstacle;
    return nullptr;
  }
  const AddressRange range{memory.address, memory.address + memory.length};
  ibv_mr* region = functions.reg_mr(domain, range.data(), memory.length, access);
  if (region == nullptr) error = "ibv_reg_mr: " + errno_text();
  return region;
}

}  // namespace

GpuDirectFunctions load_gpu_direct(const GpuDirectReport& report, const LibraryLoader& loader) {
  GpuDirectFunctions functions;
  functions.dma_buf_obstacle = obstacle_of(report, GpuDirectRoute::dma_buf);
  functions.peer_memory_obstacle = obstacle_of(report, GpuDirectRoute::peer_memory);
  if (const auto verbs = loader.open({"libibverbs.so.1"})) {
    verbs->find(functions.reg_mr, "ibv_reg_mr");
    verbs->find(functions.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
    verbs->find(functions.dereg_mr, "ibv_dereg_mr");
  }
  if (report.vendor == GpuVendor::amd)
    if (const auto hsa = loader.open({"libhsa-runtime64.so.1"}))
      hsa->find(functions.hsa_export, "hsa_amd_portable_export_dmabuf");
  return functions;
}

DeviceRegistration register_device_memory(const GpuDirectFunctions& functions, ibv_pd* domain,
                                          DeviceMemory memory, int access) {
  using Path = DeviceRegistration::Path;
  std::string dma_buf, peer_memory;
  if (functions.dereg_mr == nullptr) {
    dma_buf = peer_memory = "libibverbs is not there";
  } else {
    if (ibv_mr* region = try_dma_buf(functions, domain, memory, access, dma_buf))
      return {Path::dma_buf, {region, functions.dereg_mr}, ""};
    if (ibv_mr* region = try_peer_memory(functions, domain, memory, access, peer_memory))
      return {Path::peer_memory, {region, functions.dereg_mr}, "dma-buf: " + dma_buf};
  }
  return {Path::staged,
          {nullptr, functions.dereg_mr},
          fmt::format("stage through pinned host memory: dma-buf: {}; peer memory: {}", dma_buf,
                      peer_memory)};
}

}  // namespace capstan
