// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/simulate/loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace capstan::cli {

std::string amount(double bytes) {
  constexpr std::string_view units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 9999.5 && unit + 1 < std::size(units); ++unit) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, unit > 0 && bytes < 100 ? 1 : 0, units[unit]);
}

std::string link_name(const Cluster& cluster, int link) {
  const Fabric& fabric = *cluster.fabric;
  return link < fabric.links() ? fabric.name_of(link)
                               : fmt::format("rank {}", link - fabric.links());
}

std::vector<ClassLoad> loads_of(const Scenario& scenario) {
  const Fabric& fabric = *scenario.cluster().fabric;
  std::map<int, ClassLoad> classes;
  for (const LinkLoad& load : scenario.best().run.loads) {
    const bool memory = load.link >= fabric.links();
    const int kind =
        memory ? static_cast<int>(fabric.classes().size()) : fabric.class_of(load.link);
    ClassLoad& all = classes[kind];
    all.name = memory ? scenario.cluster().memory.name : fabric[load.link].name;
    ++all.used;
    all.bytes += load.bytes;
    all.busy += load.busy;
    if (load.busy > all.most.busy) all.most = load;
  }
  std::vector<ClassLoad> found;
  for (auto& [kind, load] : classes) found.push_back(std::move(load));
  return found;
}

std::vector<LinkLoad> busiest(const Scenario& scenario) {
  auto loads = scenario.best().run.loads;
  const auto most = std::min(loads.size(), static_cast<std::size_t>(scenario.options().links));
  std::ranges::stable_sort(loads, std::greater<>{}, &LinkLoad::busy);
  loads.resize(most);
  return loads;
}

}  // namespace capstan::cli
