// SPDX-License-Identifier: Apache-2.0
#include "topology/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "capstan/error.hpp"
#include "topology/hwloc_reader.hpp"

namespace capstan {
namespace {

int count_distinct(std::span<const Core> cores, int Core::* place) {
  std::set<int> seen;
  for (const Core& core : cores) seen.insert(core.*place);
  return static_cast<int>(seen.size());
}

Bytes smallest_known(std::span<const Cache> caches) {
  Bytes smallest;
  for (const Cache& cache : caches)
    if (smallest == Bytes{0} || (cache.size != Bytes{0} && cache.size < smallest))
      smallest = cache.size;
  return smallest;
}

std::vector<Core> usable_part(const MachineDescription& all) {
  std::vector<Core> cores;
  for (Core core : all.cores) {
    core.processing_units = core.processing_units & all.usable;
    if (!core.processing_units.empty()) cores.push_back(std::move(core));
  }
  return cores;
}

std::vector<int> index_by_unit(std::span<const Core> cores) {
  std::vector<int> core_of_unit;
  for (const Core& core : cores)
    for (const unsigned unit : core.processing_units) {
      if (unit >= core_of_unit.size()) core_of_unit.resize(unit + std::size_t{1}, Core::none);
      core_of_unit[unit] = core.index;
    }
  return core_of_unit;
}

}  // namespace

Machine Machine::discover() {
  return Machine{read_this_machine(current_binding())};
}

Machine Machine::from_xml(const std::string& path) {
  return Machine{read_xml(path)};
}

Machine Machine::from_synthetic(const std::string& description) {
  return Machine{read_synthetic(description)};
}

Machine::Machine(MachineDescription description)
    : all_(std::move(description)),
      cores_(usable_part(all_)),
      core_of_unit_(index_by_unit(all_.cores)),
      packages_(count_distinct(cores_, &Core::package)),
      numa_nodes_(count_distinct(cores_, &Core::numa_node)) {
  if (cores_.empty()) {
    throw InvalidArgument(
        fmt::format("none of the machine's {} cores is usable with processing units '{}': describe "
                    "a machine that has them",
                    all_.cores.size(), to_string(all_.usable)));
  }
}

const Core* Machine::core_of(unsigned processing_unit) const {
  if (processing_unit >= core_of_unit_.size()) return nullptr;
  const int index = core_of_unit_[processing_unit];
  return index == Core::none ? nullptr : &all_.cores[static_cast<std::size_t>(index)];
}

Bytes Machine::l1d() const {
  return smallest_known(all_.l1d_caches);
}

Bytes Machine::l2() const {
  return smallest_known(all_.l2_caches);
}

Bytes Machine::l3() const {
  return smallest_known(all_.l3_caches);
}

int Machine::cores_sharing(const Cache& cache) const {
  std::set<const Core*> sharing;
  for (const unsigned unit : cache.processing_units)
    if (const Core* core = core_of(unit)) sharing.insert(core);
  return static_cast<int>(sharing.size());
}

}  // namespace capstan
