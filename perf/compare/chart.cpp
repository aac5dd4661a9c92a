// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "perf/compare/workers.hpp"
#include "perf/measure/chart.hpp"

namespace capstan::perf {
namespace {

/// The cells of one figure, by size.
using Panel = std::vector<const CellResult*>;

std::vector<Panel> panels_of(const std::vector<CellResult>& cells) {
  std::vector<Panel> panels;
  for (const CellResult& cell : cells) {
    const auto same = std::ranges::find_if(panels, [&](const Panel& panel) {
      return panel.front()->subject == cell.subject && panel.front()->ranks == cell.ranks;
    });
    if (same == panels.end())
      panels.push_back({&cell});
    else
      same->push_back(&cell);
  }
  return panels;
}

std::string title_of(const Panel& panel) {
  return fmt::format("{}, {} ranks", name_of(panel.front()->subject), panel.front()->ranks);
}

void add_point(std::vector<report::Line>& lines, const std::string& name, Bytes size,
               const Times& times, const std::string& note) {
  if (times.median <= 0) return;
  report::Line& line = line_named(lines, name);
  if (name == own_name) line.role = report::Role::subject;
  if (name == bound_name) line.role = report::Role::bound;
  line.points.push_back({.x = place_of(size),
                         .y = times.median,
                         .low = times.lower,
                         .high = times.upper,
                         .note = note});
}

report::Figure figure_of(const Panel& panel) {
  std::vector<report::Line> lines, alone;
  std::vector<report::Taken> taken;
  for (const CellResult* cell : panel) {
    add_point(lines, own_name, cell->size, cell->own, "");
    if (cell->own.median > 0)
      taken.push_back(
          {place_of(cell->size), cell->explanation.substr(0, cell->explanation.find(' '))});
    for (const CellResult::Peer& way : cell->ways)
      add_point(lines, way.worker, cell->size, way.times, fmt::format("{:.2f} x", way.ratio));
    add_point(lines, bound_name, cell->size, cell->bound, "");
    add_point(alone, own_name, cell->size, cell->alone, "");
    for (const CellResult::Peer& way : cell->ways_alone)
      add_point(alone, way.worker, cell->size, way.times, fmt::format("{:.2f} x", way.ratio));
  }
  const Subject& subject = panel.front()->subject;
  const double share =
      subject.is_collective() ? bus_share(subject.collective, panel.front()->ranks) : 1;
  return times_and_bandwidths(title_of(panel), share, std::move(lines), std::move(alone),
                              std::move(taken));
}

std::optional<report::HeatMap::Cell> heat_of(const Panel& panel, Bytes size) {
  constexpr double full = 4;  // the factor from which colours are as strong as they get
  const auto found = std::ranges::find(panel, size, &CellResult::size);
  if (found == panel.end() || !(*found)->ratio()) return std::nullopt;
  const CellResult& cell = **found;
  return report::HeatMap::Cell{
      fmt::format("{:.2f}", *cell.ratio()),
      std::clamp(std::log(*cell.ratio()) / std::log(full), -1.0, 1.0),
      fmt::format("{}, spread {:.0f} %; Capstan ran {}", cell.best()->worker,
                  100 * cell.best()->ratio_spread, cell.explanation)};
}

report::HeatMap heat_map(const std::vector<Panel>& panels, const std::vector<CellResult>& cells) {
  report::HeatMap map{
      .title = "All cells",
      .legend =
          "Time of the best peer over Capstan's, medians over rounds. Above 1, in blue, "
          "Capstan is ahead."};
  std::set<Bytes> sizes;
  for (const CellResult& cell : cells) sizes.insert(cell.size);
  for (const Bytes size : sizes) map.columns.push_back(short_size(size));
  for (const Panel& panel : panels) {
    map.rows.push_back({title_of(panel), {}});
    for (const Bytes size : sizes) map.rows.back().cells.push_back(heat_of(panel, size));
  }
  return map;
}

}  // namespace

std::string chart_page(const std::vector<CellResult>& cells, const Summary& summary,
                       const report::Facts& facts) {
  report::Page page{"Capstan and its peers",
                    fmt::format("Capstan is {:.2f} times as fast as the best peer (geometric mean "
                                "of all cells); cells lost: {} of {}.",
                                summary.geometric_mean, summary.lost.size(), cells.size())};
  page.add_facts(facts);
  const auto panels = panels_of(cells);
  page.add(heat_map(panels, cells));
  for (const Panel& panel : panels) page.add(figure_of(panel));
  return page.html();
}

}  // namespace capstan::perf
