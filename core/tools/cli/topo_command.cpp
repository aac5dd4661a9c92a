// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "core/tools/cli/commands.hpp"
#include "core/tools/cli/numbers.hpp"
#include "core/tools/cli/options.hpp"
#include "core/tools/cli/topo/scene.hpp"
#include "perf/measure/report.hpp"

namespace capstan::cli {
namespace {

struct TopoOptions {
  std::optional<int> ranks;
  std::string xml, synthetic, svg;
  std::string json;
};

Machine machine_of(const TopoOptions& options) {
  if (!options.xml.empty()) return Machine::from_xml(options.xml);
  if (!options.synthetic.empty()) return Machine::from_synthetic(options.synthetic);
  return Machine::discover();
}

/// hwloc's notation has no devices.
IoTopology io_of(const TopoOptions& options) {
  if (!options.xml.empty()) return IoTopology::from_xml(options.xml);
  if (!options.synthetic.empty()) return {};
  return IoTopology::discover();
}

Scene scene_of(const TopoOptions& options) {
  Scene scene{machine_of(options),
              io_of(options),
              options.xml.empty() && options.synthetic.empty(),
              options.ranks.has_value(),
              {}};
  const int cores = static_cast<int>(scene.machine.cores().size());
  scene.placement = place_ranks(scene.machine, options.ranks.value_or(cores));
  return scene;
}

void run(const TopoOptions& options) {
  perf::check_writable(options.svg);
  perf::check_writable(options.json);
  const Scene scene = scene_of(options);
  if (!options.svg.empty()) perf::write_document(options.svg, to_svg(scene));
  write_json(options.json, to_json(scene));
  if (prints_text(options.json)) print_text(scene);
}

constexpr const char* topo_examples =
    "Examples:\n"
    "  capstan topo                        the part of this machine that this process may use\n"
    "  capstan topo --ranks 8              where eight ranks would run and how near they are\n"
    "  taskset -c 0,2 capstan topo         the same with the limits of a launcher or container\n"
    "  capstan topo --ranks 16 --synthetic \"package:2 numa:2 l3:1(size=32MB) l2:4(size=1MB) "
    "core:1 pu:2\"\n"
    "                                      another machine: 2 packages of 2 NUMA nodes\n"
    "                                      with an L3 and 4 cores of 2 hardware threads each\n"
    "  capstan topo --ranks 8 --svg machine.svg\n"
    "                                      a picture of it\n"
    "  lstopo big.xml                      on another machine; then, here:\n"
    "  capstan topo --ranks 64 --xml big.xml";

}  // namespace

void add_topo_command(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("topo",
                                     "Show the cores, caches, network cards and GPUs of a machine, "
                                     "and where ranks would run on it");
  const auto options = std::make_shared<TopoOptions>();
  command->add_option("-n,--ranks", options->ranks, "Show the placement of this many ranks")
      ->check(number_from(1, 1024));
  add_json_option(*command, options->json);
  command->add_option("--svg", options->svg, "Draw it into this file, for a browser");
  auto* xml = command->add_option("--xml", options->xml, "Look at a machine saved by lstopo");
  command->add_option("--synthetic", options->synthetic, "Look at a machine in hwloc's notation")
      ->excludes(xml);
  command->footer(topo_examples);
  command->callback([options, &status] {
    run(*options);
    status = 0;
  });
}

}  // namespace capstan::cli
