// SPDX-License-Identifier: Apache-2.0
#include "capstan/memory_kind.hpp"

#include <algorithm>

namespace capstan {

std::string_view name_of(MemoryKind memory) {
  return memory == MemoryKind::device ? "device" : "host";
}

std::string_view name_of(DeviceLink link) {
  switch (link) {
    case DeviceLink::memory:
      return "its memory";
    case DeviceLink::direct:
      return "NVLink or xGMI";
    case DeviceLink::bus:
      break;
  }
  return "PCIe or an unknown link";
}

std::string_view word_for(DeviceLink link) {
  static constexpr std::array<std::string_view, all_device_links.size()> words{"memory", "direct",
                                                                               "bus"};
  return words[static_cast<std::size_t>(link)];
}

std::optional<DeviceLink> device_link_named(std::string_view word) {
  const auto found =
      std::ranges::find(all_device_links, word, [](DeviceLink link) { return word_for(link); });
  return found == all_device_links.end() ? std::nullopt : std::optional{*found};
}

}  // namespace capstan
