#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/cli/commands.hpp"
#include "topology/machine.hpp"

namespace capstan::cli {
namespace {

struct TopoCommand {
  int ranks = 0;
  std::string synthetic;
  bool json = false;
};

std::string size_text(Bytes bytes) {
  if (bytes == Bytes{0}) return "unknown";
  return bytes.value() >= 1 << 20 ? fmt::format("{} MiB", bytes.value() >> 20)
                                  : fmt::format("{} KiB", bytes.value() >> 10);
}

nlohmann::json to_json(const Machine& machine, const std::vector<CpuSet>& places) {
  nlohmann::json cores = nlohmann::json::array(), ranks = nlohmann::json::array();
  for (const Core& core : machine.cores())
    cores.push_back({{"processing_units", core.processing_units},
                     {"package", core.package},
                     {"numa_node", core.numa_node},
                     {"l2", core.l2},
                     {"l3", core.l3}});
  for (const CpuSet& place : places) {
    nlohmann::json distances = nlohmann::json::array();
    for (const CpuSet& other : places)
      distances.push_back(name_of(machine.proximity(place, other)));
    ranks.push_back({{"processing_units", place}, {"proximity", distances}});
  }
  return {
      {"packages", machine.packages()},
      {"numa_nodes", machine.numa_nodes()},
      {"caches", {machine.cache(1).value(), machine.cache(2).value(), machine.cache(3).value()}},
      {"chunk", machine.chunk().value()},
      {"cores", cores},
      {"ranks", ranks}};
}

void print_table(const Machine& machine, const std::vector<CpuSet>& places) {
  fmt::print("{} packages, {} NUMA nodes, {} cores, {} processing units\n", machine.packages(),
             machine.numa_nodes(), machine.cores().size(), machine.processing_units());
  fmt::print("caches: L1 {}, L2 {}, L3 {}\n", size_text(machine.cache(1)),
             size_text(machine.cache(2)), size_text(machine.cache(3)));
  fmt::print("chunk: {} staged per rank at a time (a quarter of the L2, 64 to 512 KiB)\n\n",
             size_text(machine.chunk()));
  fmt::print("{:>5} {:>16} {:>8} {:>5} {:>4} {:>4}\n", "core", "processing units", "package",
             "NUMA", "L2", "L3");
  for (std::size_t i = 0; i < machine.cores().size(); ++i) {
    const Core& core = machine.cores()[i];
    fmt::print("{:>5} {:>16} {:>8} {:>5} {:>4} {:>4}\n", i, to_string(core.processing_units),
               core.package, core.numa_node, core.l2, core.l3);
  }
  fmt::print("\n{:>5} {:>16}  nearest other rank\n", "rank", "processing units");
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto nearest = Proximity::same_machine;
    for (std::size_t j = 0; j < places.size(); ++j)
      if (i != j) nearest = std::min(nearest, machine.proximity(places[i], places[j]));
    fmt::print("{:>5} {:>16}  {}\n", i, to_string(places[i]),
               places.size() > 1 ? name_of(nearest) : "-");
  }
}

int run(const TopoCommand& command) {
  const Machine machine =
      command.synthetic.empty() ? Machine::discover() : Machine::synthetic(command.synthetic);
  const auto places = machine.place_ranks(
      command.ranks > 0 ? command.ranks : static_cast<int>(machine.cores().size()));
  if (command.json)
    fmt::print("{}\n", to_json(machine, places).dump(2));
  else
    print_table(machine, places);
  return 0;
}

}  // namespace

void add_topo_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("topo", "Show the machine and where ranks would run");
  const auto options = std::make_shared<TopoCommand>();
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Number of ranks to place; one per core unless said")
      ->check(CLI::Range(1, 1024));
  command->add_option("--synthetic", options->synthetic, "Another machine, as hwloc describes it");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  capstan topo -n 8\n"
      "  capstan topo -n 8 --synthetic 'package:2 l3:1 core:4 pu:2'");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace capstan::cli
