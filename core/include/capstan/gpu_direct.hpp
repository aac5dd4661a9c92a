// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The routes by which a network card can access a GPU's memory directly.
enum class GpuDirectRoute {
  dma_buf,      ///< the GPU's driver exports a dma-buf, ibv_reg_dmabuf_mr registers it
  peer_memory,  ///< a kernel module lets ibv_reg_mr take GPU addresses
  libfabric     ///< a libfabric provider with FI_HMEM does either by itself
};
std::string_view name_of(GpuDirectRoute route);

/// See Settings::gpu_direct.
enum class GpuDirectUse : std::uint8_t { detect, always, never };

enum class GpuVendor { nvidia, amd };
std::string_view name_of(GpuVendor vendor);

/// The result of one probe of this machine.
struct Finding {
  std::string subject;  ///< "network card", "kernel", ...
  bool ok = false;
  std::string reason;  ///< what was found, or what is missing
  std::string remedy;  ///< when it is not ok
};

/// The findings about one route, which is open when all are ok.
struct RouteReport {
  GpuDirectRoute route;
  std::vector<Finding> findings;

  bool available() const;
  /// The first finding that is not ok; null when the route is open.
  const Finding* obstacle() const;
};

struct GpuDirectReport {
  std::optional<GpuVendor> vendor;  ///< of the GPU, if there is one
  std::vector<RouteReport> routes;  ///< all routes, the best first

  bool supported() const;
  /// Null when the report has no such route.
  const RouteReport* find(GpuDirectRoute route) const;
  /// Throws SystemError when no route is open; it names each route's obstacle and its remedy.
  void require() const;
};

/// The report of this machine, made once. Thread-safe. The first call loads and initialises the
/// GPU's driver library and libfabric if they are installed, which takes up to seconds and is not
/// undone, so do not make it before a fork(). It sets IPATH_NO_BACKTRACE, FI_UNIVERSE_SIZE,
/// FI_OFI_RXM_BUFFER_SIZE and FI_MR_CACHE_MAX_COUNT unless they are set, so do not make it while
/// other threads use the environment.
const GpuDirectReport& gpu_direct();

}  // namespace CAPSTAN_EXPORT capstan
