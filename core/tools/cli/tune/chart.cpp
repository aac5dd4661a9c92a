// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/tune/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "perf/measure/chart.hpp"
#include "perf/measure/report.hpp"

namespace capstan::cli {
namespace {

/// The cells of one collective in a group, by size.
struct Panel {
  std::string title;
  Collective collective{};
  int ranks = 0;
  std::vector<const MeasuredCell*> cells{};
};

std::vector<Panel> panels_of(const Profile& profile) {
  std::vector<Panel> panels;
  for (const MeasuredGroup& group : profile.groups)
    for (const Collective collective : all_collectives()) {
      Panel panel{.title = fmt::format("{}, {}", name_of(collective), name_of(group)),
                  .collective = collective,
                  .ranks = group.ranks};
      for (const MeasuredCell& cell : group.cells)
        if (cell.collective == collective && !cell.ways.empty()) panel.cells.push_back(&cell);
      std::ranges::sort(panel.cells, {}, &MeasuredCell::bytes);
      if (!panel.cells.empty()) panels.push_back(std::move(panel));
    }
  return panels;
}

/// The band has the width of `spread`, and lies evenly around the median on a logarithmic axis.
report::Point point_of(const MeasuredCell& cell, const MeasuredWay& way) {
  const double time = way.nanoseconds / 1000, factor = std::exp(std::asinh(way.spread / 2));
  return {.x = perf::place_of(cell.bytes),
          .y = time,
          .low = time / factor,
          .high = time * factor,
          .note = fmt::format("{:.2f} x", way.nanoseconds / cell.ways.front().nanoseconds)};
}

/// Lines of candidates that were the fastest somewhere come first, and the others start hidden.
report::Figure figure_of(const Panel& panel) {
  std::vector<report::Line> lines;
  std::vector<report::Taken> taken;
  for (const MeasuredCell* cell : panel.cells) {
    taken.push_back({perf::place_of(cell->bytes), name_of(cell->ways.front())});
    perf::line_named(lines, taken.back().name);
  }
  const std::size_t fastest = lines.size();
  for (const MeasuredCell* cell : panel.cells)
    for (const MeasuredWay& way : cell->ways)
      perf::line_named(lines, name_of(way)).points.push_back(point_of(*cell, way));
  for (std::size_t i = fastest; i < lines.size(); ++i) lines[i].shown = false;
  return perf::times_and_bandwidths(panel.title, perf::bus_share(panel.collective, panel.ranks),
                                    std::move(lines), {}, std::move(taken));
}

report::HeatMap::Cell heat_of(const MeasuredCell& cell) {
  return {fmt::format("{:.2f}", cell.ways.front().nanoseconds / 1000), cell.confidence,
          fmt::format("{}, confidence {:.0f} %, of {} candidates", name_of(cell.ways.front()),
                      100 * cell.confidence, cell.ways.size())};
}

report::HeatMap heat_map(const std::vector<Panel>& panels) {
  report::HeatMap map{.title = "All cells",
                      .legend =
                          "Microseconds of the fastest candidate. The stronger the blue, the "
                          "more often it was among the fastest (confidence)."};
  std::set<Bytes> sizes;
  for (const Panel& panel : panels)
    for (const MeasuredCell* cell : panel.cells) sizes.insert(cell->bytes);
  for (const Bytes size : sizes) map.columns.push_back(perf::short_size(size));
  for (const Panel& panel : panels) {
    map.rows.push_back({panel.title, {}});
    for (const Bytes size : sizes) {
      const auto cell = std::ranges::find(panel.cells, size, &MeasuredCell::bytes);
      map.rows.back().cells.push_back(cell == panel.cells.end() ? std::nullopt
                                                                : std::optional{heat_of(**cell)});
    }
  }
  return map;
}

}  // namespace

std::string chart_page(const Profile& profile, const report::Facts& facts) {
  report::Page page{"What capstan tune has measured",
                    "Medians over turns of every candidate (algorithm/protocol); bands are as wide "
                    "as the distance between the quartiles. Candidates that were never the fastest "
                    "are switched off at first."};
  page.add_facts(facts);
  page.add_fact("profile of", profile.machine.description);
  for (const MeasuredGroup& group : profile.groups)
    page.add_fact(name_of(group),
                  fmt::format("{}, {} {}{}", group.date, group.command, group.machine,
                              group.under_load.empty() ? "" : ", beside " + group.under_load));
  const auto panels = panels_of(profile);
  page.add(heat_map(panels));
  for (const Panel& panel : panels) page.add(figure_of(panel));
  return page.html();
}

}  // namespace capstan::cli
