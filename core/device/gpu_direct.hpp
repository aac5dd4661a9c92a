#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/shared_library.hpp"

namespace capstan {

/// The ways in which a network card can read and write a GPU's memory itself.
enum class GpuDirectRoute {
  dma_buf,      ///< the GPU's driver exports a dma-buf, ibv_reg_dmabuf_mr registers it
  peer_memory,  ///< a kernel module lets ibv_reg_mr take GPU addresses
  libfabric     ///< a libfabric provider with FI_HMEM does either by itself
};
std::string_view name_of(GpuDirectRoute route);

enum class GpuVendor { nvidia, amd };
std::string_view name_of(GpuVendor vendor);

/// The answer to one question about this machine.
struct Finding {
  std::string subject;  ///< "network card", "kernel", ...
  bool ok = false;
  std::string reason;  ///< what was found, or what is missing
  std::string remedy;  ///< when it is not ok
};

/// Whether one route is open: it is when all findings are ok.
struct RouteReport {
  GpuDirectRoute route;
  std::vector<Finding> findings;

  bool available() const;
  /// The first finding that is not ok; null when the route is open.
  const Finding* obstacle() const;
};

struct GpuDirectReport {
  std::optional<GpuVendor> vendor;  ///< of the GPU, if there is one
  std::vector<RouteReport> routes;  ///< one of each, the best first

  bool supported() const;
  /// Null when the report has no such route.
  const RouteReport* find(GpuDirectRoute route) const;
  /// Throws SystemError that names the obstacle of each route and its remedy, when none is open.
  void require() const;
};

/// What detection looks at; tests make it up.
struct SystemView {
  std::filesystem::path root = "/";  ///< /sys, /proc and /dev are below it
  const LibraryLoader* loader = &system_loader();
};

/// Looks at the machine now. Loads the GPU's driver library and libfabric if they are there, and
/// initialises them, which costs up to seconds and is not undone: not before a fork(). Sets
/// IPATH_NO_BACKTRACE unless it is set, so not while other threads use the environment.
GpuDirectReport detect_gpu_direct(const SystemView& system = {});

/// The same, found out once. Thread-safe.
const GpuDirectReport& gpu_direct();

}  // namespace capstan
