// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "capstan/memory_kind.hpp"

namespace capstan {

class DeviceDriver;

/// The link to the device at this PCI address, which this process need not see.
DeviceLink link_to(const DeviceDriver& driver, int device, std::string_view peer_address);

}  // namespace capstan
