// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/host_identity.hpp"
#include "core/tools/cli/topo/scene.hpp"

namespace capstan::cli {
namespace {

nlohmann::json index_json(int index) {
  return index == Core::none ? nlohmann::json{} : nlohmann::json(index);
}

nlohmann::json core_json(const Core& core) {
  return {{"index", core.index},         {"package", core.package},
          {"numa_node", core.numa_node}, {"l2", index_json(core.l2)},
          {"l3", index_json(core.l3)},   {"cpus", to_string(core.processing_units)}};
}

nlohmann::json caches_json(const Machine& machine, std::span<const Cache> caches) {
  nlohmann::json all = nlohmann::json::array();
  for (const Cache& cache : caches)
    all.push_back({{"bytes", cache.size.value()},
                   {"cores", machine.cores_sharing(cache)},
                   {"cpus", to_string(cache.processing_units)}});
  return all;
}

nlohmann::json machine_json(const Scene& scene) {
  const Machine& machine = scene.machine;
  nlohmann::json cores = nlohmann::json::array();
  for (const Core& core : machine.cores()) cores.push_back(core_json(core));
  return {{"name", machine.name()},
          {"host", scene.is_here ? nlohmann::json(host_identity()) : nlohmann::json{}},
          {"packages", machine.packages()},
          {"numa_nodes", machine.numa_nodes()},
          {"usable_cpus", to_string(machine.processing_units())},
          {"all_cores", machine.every_core().size()},
          {"cores", cores},
          {"l1d_bytes", machine.l1d().value()},
          {"l2_caches", caches_json(machine, machine.l2_caches())},
          {"l3_caches", caches_json(machine, machine.l3_caches())}};
}

nlohmann::json placement_json(const Scene& scene) {
  nlohmann::json ranks = nlohmann::json::array();
  for (std::size_t rank = 0; rank < scene.placement.size(); ++rank) {
    const Core& core = scene.core_of_rank(rank);
    ranks.push_back(core_json(core));
    ranks.back()["rank"] = rank;
    ranks.back()["core"] = core.index;
    ranks.back().erase("index");
    ranks.back()["cpus"] = to_string(scene.placement[rank]);
  }
  return ranks;
}

nlohmann::json proximity_json(const Scene& scene) {
  nlohmann::json matrix = nlohmann::json::array();
  for (const CpuSet& a : scene.placement) {
    nlohmann::json& row = matrix.emplace_back(nlohmann::json::array());
    for (const CpuSet& b : scene.placement) row.push_back(name_of(proximity(scene.machine, a, b)));
  }
  return matrix;
}

nlohmann::json devices_json(const IoTopology& io) {
  nlohmann::json devices = nlohmann::json::array();
  for (const IoDevice& device : io.devices) {
    nlohmann::json paths = nlohmann::json::array();
    for (const IoDevice& other : io.devices) paths.push_back(name_of(path_between(device, other)));
    devices.push_back({{"kind", name_of(device.kind)},
                       {"names", device.names},
                       {"bus_id", device.bus_id},
                       {"model", device.model},
                       {"link_gigabytes_per_second", device.link_rate},
                       {"numa_node", index_json(device.numa_node)},
                       {"near_cpus", to_string(device.near)},
                       {"paths", paths}});
  }
  return devices;
}

}  // namespace

nlohmann::json to_json(const Scene& scene) {
  const ChunkChoice chunk = choose_chunk(scene.machine, scene.placement);
  nlohmann::json document{{"machine", machine_json(scene)},
                          {"devices", devices_json(scene.io)},
                          {"numa_distances", scene.io.numa_distances},
                          {"chunk",
                           {{"ranks", scene.placement.size()},
                            {"bytes", chunk.bytes.value()},
                            {"reason", chunk.reason}}}};
  if (scene.ranks_asked) {
    document["placement"] = placement_json(scene);
    document["proximity"] = proximity_json(scene);
  }
  return document;
}

}  // namespace capstan::cli
