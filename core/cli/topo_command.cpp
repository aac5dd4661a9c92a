#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "core/cli/commands.hpp"
#include "core/net/host_identity.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

struct TopoOptions {
  std::optional<int> ranks;
  std::string xml, synthetic;
  bool json = false;
};

/// A machine and the placement of ranks on it.
struct Scene {
  Machine machine;
  bool is_here;                   ///< whether it is the machine that this process runs on
  bool ranks_asked;               ///< false: one rank per core, for the chunk size only
  std::vector<CpuSet> placement;  ///< entry r for rank r
};

Machine machine_of(const TopoOptions& options) {
  if (!options.xml.empty()) return Machine::from_xml(options.xml);
  if (!options.synthetic.empty()) return Machine::from_synthetic(options.synthetic);
  return Machine::discover();
}

Scene scene_of(const TopoOptions& options) {
  Scene scene{machine_of(options),
              options.xml.empty() && options.synthetic.empty(),
              options.ranks.has_value(),
              {}};
  const int cores = static_cast<int>(scene.machine.cores().size());
  scene.placement = place_ranks(scene.machine, options.ranks.value_or(cores));
  return scene;
}

const Core& core_of(const Machine& machine, const CpuSet& binding) {
  return *machine.core_of(*binding.begin());
}

// --- text ---------------------------------------------------------------------------------------

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string size_text(Bytes bytes) {
  if (bytes == Bytes{0}) return "of unknown size";
  const std::uint64_t kib = bytes.value() >> 10;
  if (kib < 1024) return fmt::format("{} KiB", kib);
  return fmt::format("{:.4g} MiB", static_cast<double>(bytes.value()) / (1 << 20));
}

std::string index_text(int index) {
  return index == Core::none ? "-" : fmt::format("{}", index);
}

void print_fact(std::string_view label, std::string_view fact) {
  fmt::print("{:<9} {}\n", label, fact);
}

std::string cache_text(const Machine& machine, std::string_view name, Bytes size,
                       std::span<const Cache> caches) {
  if (caches.empty()) return fmt::format("{} unknown", name);
  const int sharing = machine.cores_sharing(caches.front());
  return fmt::format("{} {} per {}", name, size_text(size),
                     sharing == 1 ? "core" : fmt::format("{} cores", sharing));
}

void print_machine(const Machine& machine) {
  std::size_t units = 0;
  for (const Core& core : machine.every_core()) units += core.processing_units.size();
  print_fact("Machine", fmt::format("{}{}, {}", machine.name().empty() ? "" : machine.name() + ": ",
                                    counted(machine.every_core().size(), "core"),
                                    counted(units, "hardware thread")));
  print_fact("Usable",
             fmt::format("{} (CPUs {}), {}, {}", counted(machine.cores().size(), "core"),
                         to_string(machine.processing_units()),
                         counted(static_cast<std::size_t>(machine.packages()), "package"),
                         counted(static_cast<std::size_t>(machine.numa_nodes()), "NUMA node")));
  print_fact("Caches", fmt::format("L1d {}; {}; {}", size_text(machine.l1d()),
                                   cache_text(machine, "L2", machine.l2(), machine.l2_caches()),
                                   cache_text(machine, "L3", machine.l3(), machine.l3_caches())));
}

/// Prints one line for each sequence of cores with the same package, NUMA node and L3.
void print_cores(const Machine& machine) {
  fmt::print("\n{:>7}  {:>4}  {:>3}  {:<12}  {}\n", "package", "NUMA", "L3", "cores", "CPUs");
  const auto place = [](const Core& core) {
    return std::tuple{core.package, core.numa_node, core.l3};
  };
  const auto cores = machine.cores();
  for (std::size_t first = 0, next; first < cores.size(); first = next) {
    std::vector<unsigned> indices;
    CpuSet cpus;
    for (next = first; next < cores.size() && place(cores[next]) == place(cores[first]); ++next) {
      indices.push_back(static_cast<unsigned>(cores[next].index));
      cpus = cpus | cores[next].processing_units;
    }
    fmt::print("{:>7}  {:>4}  {:>3}  {:<12}  {}\n", cores[first].package, cores[first].numa_node,
               index_text(cores[first].l3), to_ranges(indices), to_string(cpus));
  }
}

void print_placement(const Scene& scene) {
  fmt::print("\n{:>4}  {:>4}  {:>2}  {:>2}  {:>4}  {:>7}  {}\n", "rank", "core", "L2", "L3", "NUMA",
             "package", "CPUs");
  for (std::size_t rank = 0; rank < scene.placement.size(); ++rank) {
    const Core& core = core_of(scene.machine, scene.placement[rank]);
    fmt::print("{:>4}  {:>4}  {:>2}  {:>2}  {:>4}  {:>7}  {}\n", rank, core.index,
               index_text(core.l2), index_text(core.l3), core.numa_node, core.package,
               to_string(scene.placement[rank]));
  }
}

/// Groups of ranks with the same value of `place`, as "0-3 | 4-7"; empty if no two ranks share one.
std::string sharing_text(const Scene& scene, int Core::* place) {
  std::map<int, std::vector<unsigned>> ranks_of;
  for (std::size_t rank = 0; rank < scene.placement.size(); ++rank)
    ranks_of[core_of(scene.machine, scene.placement[rank]).*place].push_back(
        static_cast<unsigned>(rank));
  std::vector<std::string> groups;
  for (const auto& [index, ranks] : ranks_of)
    if (index != Core::none && ranks.size() > 1) groups.push_back(to_ranges(ranks));
  return fmt::format("{}", fmt::join(groups, " | "));
}

void print_sharing(const Scene& scene) {
  constexpr std::pair<const char*, int Core::*> levels[] = {{"core", &Core::index},
                                                            {"L2", &Core::l2},
                                                            {"L3", &Core::l3},
                                                            {"NUMA node", &Core::numa_node},
                                                            {"package", &Core::package}};
  fmt::print("\nRanks that share a\n");
  for (const auto& [name, place] : levels) {
    const std::string groups = sharing_text(scene, place);
    fmt::print("  {:<9}  {}\n", name, groups.empty() ? "none" : groups);
  }
}

char letter_of(Proximity proximity) {
  constexpr std::string_view letters = "C23PM";
  return letters[static_cast<std::size_t>(proximity)];
}

/// Ranks of the widest table; lines of a wider one would wrap.
constexpr std::size_t widest_matrix = 32;

void print_proximity(const Scene& scene) {
  if (scene.placement.size() > widest_matrix) {
    fmt::print("\nThe proximity of {} ranks is too wide for a table: see --json.\n",
               scene.placement.size());
    return;
  }
  fmt::print("\nProximity (C same core, 2 same L2, 3 same L3, P same package, M same machine)\n ");
  for (std::size_t b = 0; b < scene.placement.size(); ++b) fmt::print(" {:>2}", b);
  for (std::size_t a = 0; a < scene.placement.size(); ++a) {
    fmt::print("\n{:>2}", a);
    for (std::size_t b = 0; b < scene.placement.size(); ++b)
      fmt::print("{}{}", b == 0 ? " " : "  ",
                 a == b
                     ? '.'
                     : letter_of(proximity(scene.machine, scene.placement[a], scene.placement[b])));
  }
  fmt::print("\n");
}

void print_text(const Scene& scene) {
  const ChunkChoice chunk = choose_chunk(scene.machine, scene.placement);
  print_machine(scene.machine);
  print_fact("Chunk", fmt::format("{} for {}: {}", size_text(chunk.bytes),
                                  counted(scene.placement.size(), "rank"), chunk.reason));
  if (scene.is_here) print_fact("Host", host_identity());
  print_cores(scene.machine);
  if (!scene.ranks_asked) return;
  print_placement(scene);
  print_sharing(scene);
  print_proximity(scene);
}

// --- JSON ---------------------------------------------------------------------------------------

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
    const Core& core = core_of(scene.machine, scene.placement[rank]);
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

void print_json(const Scene& scene) {
  const ChunkChoice chunk = choose_chunk(scene.machine, scene.placement);
  nlohmann::json document{{"machine", machine_json(scene)},
                          {"chunk",
                           {{"ranks", scene.placement.size()},
                            {"bytes", chunk.bytes.value()},
                            {"reason", chunk.reason}}}};
  if (scene.ranks_asked) {
    document["placement"] = placement_json(scene);
    document["proximity"] = proximity_json(scene);
  }
  fmt::print("{}\n", document.dump(2));
}

void run(const TopoOptions& options) {
  const Scene scene = scene_of(options);
  if (options.json)
    print_json(scene);
  else
    print_text(scene);
}

constexpr const char* examples =
    "Examples:\n"
    "  capstan topo                        the part of this machine that this process may use\n"
    "  capstan topo --ranks 8              where eight ranks would run and how near they are\n"
    "  taskset -c 0,2 capstan topo         the same with the limits of a launcher or container\n"
    "  capstan topo --ranks 16 --synthetic \"package:2 numa:2 l3:1(size=32MB) l2:4(size=1MB) "
    "core:1 pu:2\"\n"
    "                                      another machine: 2 packages of 2 NUMA nodes\n"
    "                                      with an L3 and 4 cores of 2 hardware threads each\n"
    "  lstopo big.xml                      on another machine; then, here:\n"
    "  capstan topo --ranks 64 --xml big.xml";

}  // namespace

void add_topo_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "topo", "Show the cores and caches of a machine and where ranks would run on it");
  const auto options = std::make_shared<TopoOptions>();
  command->add_option("-n,--ranks", options->ranks, "Show the placement of this many ranks")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "Print the same facts as JSON");
  auto* xml = command->add_option("--xml", options->xml, "Look at a machine saved by lstopo");
  command->add_option("--synthetic", options->synthetic, "Look at a machine in hwloc's notation")
      ->excludes(xml);
  command->footer(examples);
  command->callback([options, &status] {
    run(*options);
    status = 0;
  });
}

}  // namespace capstan::cli
