// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "capstan/memory_kind.hpp"
#include "core/platform/device/device_driver.hpp"
#include "core/tools/cli/doctor/probe.hpp"

namespace capstan::cli {
namespace {

/// "no peer access", "peer access among all, by NVLink or xGMI", "peer access of 4 of 6 pairs, of 2
/// by NVLink or xGMI".
std::string peer_access(const DeviceDriver& driver, int devices) {
  int pairs = 0, reached = 0, linked = 0;
  for (int device = 0; device < devices; ++device)
    for (int peer = 0; peer < devices; ++peer) {
      if (peer == device) continue;
      bool can = false, direct = false;
      ++pairs;
      if (driver.can_access_peer(device, peer, can) != 0 || !can) continue;
      ++reached;
      if (driver.is_linked(device, peer, direct) == 0 && direct) ++linked;
    }
  if (pairs == 0) return "";
  if (reached == 0) return "; no peer access";
  const std::string by{name_of(linked == 0 ? DeviceLink::bus : DeviceLink::direct)};
  const std::string links =
      linked == 0 || linked == reached ? ", by " + by : fmt::format(", of {} by {}", linked, by);
  return reached == pairs ? "; peer access among all" + links
                          : fmt::format("; peer access of {} of {} pairs{}", reached, pairs, links);
}

std::string devices_of(const DeviceDriver& driver, int devices) {
  std::vector<std::string> addresses;
  for (int device = 0; device < devices; ++device) {
    std::string address;
    if (driver.pci_address(device, address) != 0) address = "unknown address";
    addresses.push_back(std::move(address));
  }
  return fmt::format("{} device{} ({}){}", devices, devices == 1 ? "" : "s",
                     fmt::join(addresses, ", "), peer_access(driver, devices));
}

Probe report(std::string name, const FoundDriver& found, const char* tool) {
  if (!found.driver)
    return {std::move(name), Probe::Status::note, found.obstacle,
            "none is needed for buffers in host memory"};
  int devices = 0;
  int error = found.driver->initialize();
  if (error == 0) error = found.driver->count(devices);
  if (error != 0)
    return {std::move(name), Probe::Status::problem,
            "the driver does not answer: " + found.driver->text_of(error),
            fmt::format("see '{}'", tool)};
  const std::string have =
      fmt::format("{}, {} kernels in this build", devices_of(*found.driver, devices),
                  found.driver->images().empty() ? "no" : "with");
  if (found.driver->missing().empty()) return {std::move(name), Probe::Status::ok, have};
  return {std::move(name), Probe::Status::note,
          fmt::format("{}; the driver lacks {}", have, fmt::join(found.driver->missing(), ", ")),
          "calls that need these fail and say so; install a later driver"};
}

Probe cuda() {
  static_cast<void>(gpu_direct());  // loads the driver where it is installed
  return report("CUDA driver", find_cuda_driver(), "nvidia-smi");
}

/// Loads the runtime, as a program that uses HIP does.
Probe hip() {
  static_cast<void>(system_loader().open(hip_libraries()));
  FoundDriver found = find_hip_driver();
  if (!found.driver && !system_loader().loaded(hip_libraries()))
    found.obstacle = "libamdhip64 is not installed";
  return report("HIP runtime", found, "rocminfo");
}

}  // namespace

Probes device_probes() {
  return {cuda, hip};
}

}  // namespace capstan::cli
