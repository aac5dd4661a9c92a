// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/xml_text.hpp"
#include "core/tools/cli/topo/scene.hpp"

namespace capstan::cli {
namespace {

constexpr double pad = 10, line = 16, letter = 6.6;

/// In light and dark mode, by the palette of Okabe and Ito, which the colour-blind tell apart.
constexpr std::string_view style =
    "<style>text{font:12px sans-serif;fill:#222}rect{stroke:#888;fill:#fff}.package{fill:#f4f4f4}"
    ".node{fill:#e8eef4}.cache{fill:#f8f2e2}.core{fill:#fff}.ranked{fill:#56b4e9}.unusable{fill:"
    "#bbb}.device{fill:#cfe8dc}svg{background:#fff}@media(prefers-color-scheme:dark){svg{"
    "background:#1b1b1b}text{fill:#eee}rect{fill:#2a2a2a}.package{fill:#242424}.node{fill:#1f2a34}"
    ".cache{fill:#332d1c}.core{fill:#2a2a2a}.ranked{fill:#0072b2}.unusable{fill:#555}.device{fill:"
    "#1f4434}}</style>\n";

/// A part of the machine: lines of text above the parts inside.
struct Box {
  std::string kind;
  std::vector<std::string> lines;
  std::vector<Box> inside{};
  double width = 0, height = 0;

  /// Rows of about as many parts as there are rows.
  std::size_t columns() const {
    return static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(inside.size()) * 2)));
  }
  double text_height() const { return line * static_cast<double>(lines.size()); }
};

/// Parts of one box get the size of the largest.
void measure(Box& box) {
  for (const std::string& text : box.lines)
    box.width = std::max(box.width, static_cast<double>(text.size()) * letter);
  double width = 0, height = 0;
  for (Box& part : box.inside) {
    measure(part);
    width = std::max(width, part.width), height = std::max(height, part.height);
  }
  for (Box& part : box.inside) part.width = width, part.height = height;
  if (!box.inside.empty()) {
    const std::size_t columns = std::min(box.columns(), box.inside.size());
    const std::size_t rows = (box.inside.size() + columns - 1) / columns;
    box.width = std::max(box.width, static_cast<double>(columns) * (width + pad) - pad);
    box.height = static_cast<double>(rows) * (height + pad);
  }
  box.width += 2 * pad;
  box.height += box.text_height() + pad;
}

std::string draw(const Box& box, double x, double y) {
  std::string svg = fmt::format(
      "<g class=\"part\"><rect class=\"{}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" rx=\"4\"/>\n",
      box.kind, x, y, box.width, box.height);
  double below = y;
  for (const std::string& text : box.lines)
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x + pad, below += line,
                       xml_text(text));
  below += pad;
  for (std::size_t i = 0; i < box.inside.size(); ++i) {
    const Box& part = box.inside[i];
    const double column = static_cast<double>(i % box.columns()),
                 row = static_cast<double>(i / box.columns());
    svg += draw(part, x + pad + column * (part.width + pad), below + row * (part.height + pad));
  }
  return svg + "</g>\n";
}

/// The machine as boxes.
class MachineDrawing {
 public:
  explicit MachineDrawing(const Scene& scene) : scene_(scene) {
    if (scene.ranks_asked)
      for (std::size_t rank = 0; rank < scene.placement.size(); ++rank)
        ranks_[scene.core_of_rank(rank).index].push_back(static_cast<unsigned>(rank));
    for (const Core& core : scene.machine.every_core())
      cores_[core.package][core.numa_node][core.l3].push_back(&core);
  }

  Box machine() const {
    Box all{"machine", {scene_.machine.name().empty() ? "Machine" : scene_.machine.name()}};
    for (const auto& [index, nodes] : cores_) {
      Box& package = all.inside.emplace_back("package", Lines{fmt::format("package {}", index)});
      for (const auto& [node, caches] : nodes) package.inside.push_back(node_box(node, caches));
    }
    for (const IoDevice& device : scene_.io.devices)
      if (packages_with(device.numa_node) != 1) all.inside.push_back(device_box(device));
    return all;
  }

 private:
  using Lines = std::vector<std::string>;
  using Caches = std::map<int, std::vector<const Core*>>;

  /// Memory that is interleaved between packages is one node in all of them.
  std::ptrdiff_t packages_with(int node) const {
    return std::ranges::count_if(
        cores_, [&](const auto& package) { return package.second.contains(node); });
  }

  Box node_box(int index, const Caches& caches) const {
    Box node{"node", {fmt::format("NUMA node {}", index)}};
    for (const auto& [l3, cores] : caches) {
      std::vector<Box> boxes;
      for (const Core* const core : cores) boxes.push_back(core_box(*core));
      if (l3 == Core::none) {
        std::ranges::move(boxes, std::back_inserter(node.inside));
        continue;
      }
      const Cache& cache = scene_.machine.l3_caches()[static_cast<std::size_t>(l3)];
      node.inside.push_back({"cache", {"L3 " + size_text(cache.size)}, std::move(boxes)});
    }
    for (const IoDevice& device : scene_.io.devices)
      if (device.numa_node == index && packages_with(index) == 1)
        node.inside.push_back(device_box(device));
    return node;
  }

  Box core_box(const Core& core) const {
    Box box{"core",
            {fmt::format("core {}", core.index), "CPUs " + to_string(core.processing_units)}};
    if (const auto found = ranks_.find(core.index); found != ranks_.end()) {
      box.kind = "ranked";
      box.lines.push_back("rank " + to_ranges(found->second));
    } else if (!core.processing_units.intersects(scene_.machine.processing_units())) {
      box.kind = "unusable";
    }
    return box;
  }

  static Box device_box(const IoDevice& device) {
    Box box{"device", {fmt::format("{}: {}", name_of(device.kind), device.name())}};
    if (!device.bus_id.empty()) box.lines.push_back("PCI " + device.bus_id);
    if (device.link_rate > 0) box.lines.push_back(fmt::format("{:.1f} GB/s", device.link_rate));
    if (!device.model.empty()) box.lines.push_back(device.model);
    return box;
  }

  const Scene& scene_;
  std::map<int, std::vector<unsigned>> ranks_;  // by core
  std::map<int, std::map<int, Caches>> cores_;  // by package and NUMA node
};

}  // namespace

std::string to_svg(const Scene& scene) {
  Box machine = MachineDrawing{scene}.machine();
  measure(machine);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "role=\"img\">\n<title>{}</title>\n{}{}</svg>\n",
      machine.width + 2 * pad, machine.height + 2 * pad, xml_text(machine.lines.front()), style,
      draw(machine, pad, pad));
}

}  // namespace capstan::cli
