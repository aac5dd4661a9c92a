// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/memory_kind.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/schedule/selection/link_model.hpp"

namespace capstan {

/// The model of calls on memory of devices, which reach each other over such links at worst: the
/// same terms as on the host, with other constants. Steps are those of a kernel, and bytes are
/// moved by all of its lanes together.
///
/// The constants over DeviceLink::memory were fitted by hand to measurements with 2, 4 and 8 ranks
/// on one H100. Those over the other links were never measured. They take 300 GB/s for
/// DeviceLink::direct and 30 GB/s for DeviceLink::bus, and a packet costs more there because its
/// readers poll it across the link. A profile has factors for all of them, as on the host.
// measured: docs/lab-notebook.md#constants-of-devices
LinkModel device_links(DeviceLink link, int ranks);

/// The memory of the calls that a model is about.
constexpr MemoryKind memory_of(const LinkModel& model) {
  return model.devices ? MemoryKind::device : MemoryKind::host;
}

}  // namespace capstan
