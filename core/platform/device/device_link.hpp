// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace capstan {

class DeviceDriver;

/// The link that a device crosses to reach memory of a rank, nearest first.
enum class DeviceLink : std::uint8_t {
  memory,  ///< the ranks share the device
  direct,  ///< a link of the devices' own: NVLink, xGMI
  bus      ///< PCIe; also where the driver does not tell, or hides the other device
};

/// "its memory", "NVLink or xGMI", "PCIe or an unknown link".
std::string_view name_of(DeviceLink link);

/// The link to the device at this PCI address, which this process need not see.
DeviceLink link_to(const DeviceDriver& driver, int device, std::string_view peer_address);

}  // namespace capstan
