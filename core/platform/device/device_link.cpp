// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/device_link.hpp"

#include <string>

#include "core/platform/device/device_driver.hpp"

namespace capstan {
namespace {

bool is_at(const DeviceDriver& driver, int device, std::string_view address) {
  std::string own;
  return driver.pci_address(device, own) == 0 && own == address;
}

}  // namespace

DeviceLink link_to(const DeviceDriver& driver, int device, std::string_view peer_address) {
  if (is_at(driver, device, peer_address)) return DeviceLink::memory;
  int devices = 0;
  if (driver.count(devices) != 0) return DeviceLink::bus;
  for (int peer = 0; peer < devices; ++peer) {
    bool direct = false;
    if (is_at(driver, peer, peer_address) && driver.is_linked(device, peer, direct) == 0 && direct)
      return DeviceLink::direct;
  }
  return DeviceLink::bus;
}

}  // namespace capstan
