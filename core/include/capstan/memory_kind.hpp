// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The memory that a buffer lies in.
enum class MemoryKind : std::uint8_t { host, device };
/// "host", "device".
std::string_view name_of(MemoryKind memory);

/// The link that a device crosses to reach memory of a rank, nearest first.
enum class DeviceLink : std::uint8_t {
  memory,  ///< the ranks share the device
  direct,  ///< a link of the devices' own: NVLink, xGMI
  bus      ///< PCIe; also where the driver does not tell, or hides the other device
};
inline constexpr std::array all_device_links{DeviceLink::memory, DeviceLink::direct,
                                             DeviceLink::bus};

/// For explanations: "its memory", "NVLink or xGMI", "PCIe or an unknown link".
std::string_view name_of(DeviceLink link);
/// In profiles and options: "memory", "direct", "bus".
std::string_view word_for(DeviceLink link);
/// The inverse of word_for; empty when `word` is none of them.
std::optional<DeviceLink> device_link_named(std::string_view word);

}  // namespace CAPSTAN_EXPORT capstan
