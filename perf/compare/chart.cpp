#include "perf/compare/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace capstan::perf {
namespace {

constexpr double width = 460, height = 300, left = 52, right = 12, top = 28, bottom = 34;

constexpr const char* colours[] = {"#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b"};

/// The cells of one diagram, by size.
using Panel = std::vector<const CellResult*>;

struct Curve {
  std::string name, colour, dash;
  std::vector<std::pair<double, double>> points;  // bytes, microseconds
};

std::vector<Panel> panels_of(const std::vector<CellResult>& cells) {
  std::vector<Panel> panels;
  for (const CellResult& cell : cells) {
    const auto same = std::ranges::find_if(panels, [&](const Panel& panel) {
      return panel.front()->collective == cell.collective && panel.front()->ranks == cell.ranks;
    });
    if (same == panels.end())
      panels.push_back({&cell});
    else
      same->push_back(&cell);
  }
  return panels;
}

std::vector<Curve> curves_of(const Panel& panel, const std::vector<std::string>& peers) {
  Curve own{"capstan", colours[0], "", {}}, bound{"bound", "#888", "4 3", {}};
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < peers.size(); ++i)
    curves.push_back({peers[i], colours[1 + i % 4], "", {}});
  for (const CellResult* cell : panel) {
    const double bytes = static_cast<double>(std::max<std::uint64_t>(cell->size.value(), 1));
    own.points.emplace_back(bytes, cell->own.median);
    if (cell->bound.median > 0) bound.points.emplace_back(bytes, cell->bound.median);
    for (const CellResult::Peer& peer : cell->peers)
      for (Curve& curve : curves)
        if (curve.name == peer.name) curve.points.emplace_back(bytes, peer.times.median);
  }
  curves.push_back(own);
  curves.push_back(bound);
  return curves;
}

class Axis {
 public:
  Axis(double from, double to, double begin, double end)
      : from_(std::log10(from)),
        to_(std::max(std::log10(to), std::log10(from) + 0.1)),
        begin_(begin),
        end_(end) {}
  double at(double value) const {
    return begin_ + (std::log10(value) - from_) / (to_ - from_) * (end_ - begin_);
  }

 private:
  double from_, to_, begin_, end_;
};

std::string label_of(double microseconds) {
  if (microseconds >= 1e6) return fmt::format("{} s", microseconds / 1e6);
  if (microseconds >= 1e3) return fmt::format("{} ms", microseconds / 1e3);
  return fmt::format("{} us", microseconds);
}

std::string axes(const Panel& panel, const Axis& x, const Axis& y, double least, double most) {
  std::string svg;
  for (double decade = std::pow(10, std::floor(std::log10(least))); decade <= most; decade *= 10) {
    if (decade < least) continue;
    svg += fmt::format(
        "<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd'/>"
        "<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n",
        left, width - right, y.at(decade), y.at(decade), left - 4, y.at(decade) + 4,
        label_of(decade));
  }
  for (const CellResult* cell : panel)
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{}</text>\n",
                       x.at(static_cast<double>(std::max<std::uint64_t>(cell->size.value(), 1))),
                       height - bottom + 16, short_size(cell->size));
  return svg;
}

std::string diagram(const Panel& panel, const std::vector<std::string>& peers) {
  const auto curves = curves_of(panel, peers);
  double least = 1e30, most = 0, smallest = 1e30, largest = 0;
  for (const Curve& curve : curves)
    for (const auto& [bytes, time] : curve.points) {
      least = std::min(least, time), most = std::max(most, time);
      smallest = std::min(smallest, bytes), largest = std::max(largest, bytes);
    }
  const Axis x{smallest, largest, left + 8, width - right - 8};
  const Axis y{least, most, height - bottom, top};
  std::string svg = fmt::format(
      "<svg width='{}' height='{}'><text x='{}' y='16' font-weight='bold'>{}, {} ranks</text>\n",
      width, height, left, name_of(panel.front()->collective), panel.front()->ranks);
  svg += axes(panel, x, y, least, most);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    std::string points;
    for (const auto& [bytes, time] : curve.points)
      points += fmt::format("{:.1f},{:.1f} ", x.at(bytes), y.at(time));
    svg += fmt::format(
        "<polyline points='{}' fill='none' stroke='{}' stroke-width='{}' stroke-dasharray='{}'/>"
        "<text x='{}' y='{}' fill='{}'>{}</text>\n",
        points, curve.colour, curve.name == "capstan" ? 2.5 : 1.5, curve.dash, left + 12,
        top + 14 + 14 * static_cast<double>(i), curve.colour, curve.name);
  }
  return svg + "</svg>\n";
}

/// Red below 1, white at 1, green above 1; full strength from a factor of 4.
std::string shade(double ratio) {
  const double strength = std::min(std::fabs(std::log(ratio)) / std::log(4), 1.0);
  const int other = static_cast<int>(255 - 135 * strength);
  return ratio > 1 ? fmt::format("rgb({},235,{})", other, other)
                   : fmt::format("rgb(255,{},{})", other, other);
}

std::string heat_map(const std::vector<Panel>& panels, const std::vector<CellResult>& cells) {
  std::set<Bytes> sizes;
  for (const CellResult& cell : cells) sizes.insert(cell.size);
  std::string html = "<table><tr><th>collective</th><th>ranks</th>";
  for (const Bytes size : sizes) html += fmt::format("<th>{}</th>", short_size(size));
  html += "</tr>\n";
  for (const Panel& panel : panels) {
    html += fmt::format("<tr><td>{}</td><td>{}</td>", name_of(panel.front()->collective),
                        panel.front()->ranks);
    for (const Bytes size : sizes) {
      const auto found = std::ranges::find(panel, size, &CellResult::size);
      if (found == panel.end() || !(*found)->ratio())
        html += "<td></td>";
      else
        html +=
            fmt::format("<td style='background:{}' title='{}'>{:.2f}</td>",
                        shade(*(*found)->ratio()), (*found)->best()->worker, *(*found)->ratio());
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

}  // namespace

std::string chart_page(const std::vector<CellResult>& cells, const Summary& summary,
                       const std::vector<std::string>& peers) {
  const auto panels = panels_of(cells);
  std::string page =
      "<!DOCTYPE html>\n<html lang='en'><meta charset='utf-8'><title>Capstan and its "
      "peers</title>\n"
      "<style>body{font:14px sans-serif;margin:24px} svg text{font:11px sans-serif} "
      "table{border-collapse:collapse} td,th{padding:3px 8px;text-align:right}</style>\n"
      "<h1>Capstan and its peers</h1>\n";
  page += fmt::format(
      "<p>Time of the best peer over Capstan's, medians of interleaved rounds; above 1 Capstan is "
      "ahead. Geometric mean {:.2f}; cells lost: {}.</p>\n",
      summary.geometric_mean, summary.lost.size());
  page += heat_map(panels, cells);
  for (const Panel& panel : panels) page += diagram(panel, peers);
  return page + "</html>\n";
}

}  // namespace capstan::perf
