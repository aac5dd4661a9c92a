// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "perf/measure/report.hpp"

namespace capstan::perf {
namespace {

/// The same line as bandwidths: what took longest is the least.
report::Line bandwidth_of(const report::Line& times, double share) {
  report::Line line{.name = times.name, .role = times.role, .shown = times.shown};
  const auto gigabytes = [&](double bytes, double microseconds) {
    return microseconds > 0 ? share * bytes / microseconds / 1e3 : 0;
  };
  for (const report::Point& point : times.points)
    line.points.push_back({.x = point.x,
                           .y = gigabytes(point.x, point.y),
                           .low = gigabytes(point.x, point.high),
                           .high = gigabytes(point.x, point.low),
                           .note = point.note});
  return line;
}

std::string kind_of(const Measurement& m) {
  std::string kind{name_of(m.cell.type)};
  if (reduces(m.cell.collective)) kind += fmt::format(" {}", name_of(m.cell.op));
  if (m.cell.shape.root > 0) kind += fmt::format(" root {}", m.cell.shape.root);
  return m.cell.in_place ? kind + " in place" : kind;
}

std::string title_of(const Measurement& m) {
  return fmt::format("{}, {} ranks", name_of(m.cell.collective), m.ranks);
}

std::optional<report::HeatMap::Cell> cell_of(const std::vector<Measurement>& measurements,
                                             const std::string& kind, Bytes size) {
  const auto m = std::ranges::find_if(measurements, [&](const Measurement& each) {
    return kind_of(each) == kind && each.bytes() == size;
  });
  if (m == measurements.end()) return std::nullopt;
  return report::HeatMap::Cell{fmt::format("{:.2f}", m->median), -2 * m->spread,
                               fmt::format("spread {:.0f} %; {}", 100 * m->spread, m->explanation)};
}

report::HeatMap heat_map(const std::vector<Measurement>& measurements,
                         const std::vector<report::Line>& lines) {
  report::HeatMap map{.title = "All cells",
                      .legend =
                          "Microseconds, medians over rounds. The stronger the orange, the "
                          "more the rounds differed (full at a spread of 50 %)."};
  std::set<Bytes> sizes;
  for (const Measurement& m : measurements) sizes.insert(m.bytes());
  for (const Bytes size : sizes) map.columns.push_back(short_size(size));
  for (const report::Line& line : lines) {
    map.rows.push_back({line.name, {}});
    for (const Bytes size : sizes)
      map.rows.back().cells.push_back(cell_of(measurements, line.name, size));
  }
  return map;
}

}  // namespace

report::Line& line_named(std::vector<report::Line>& lines, const std::string& name) {
  const auto line = std::ranges::find(lines, name, &report::Line::name);
  if (line != lines.end()) return *line;
  lines.push_back({.name = name});
  return lines.back();
}

double place_of(Bytes size) {
  return static_cast<double>(std::max<std::uint64_t>(size.value(), 1));
}

report::Figure times_and_bandwidths(std::string title, double share,
                                    std::vector<report::Line> times,
                                    std::vector<report::Line> alone,
                                    std::vector<report::Taken> taken) {
  report::Figure figure{.title = std::move(title), .diagrams = {}, .taken = std::move(taken)};
  report::Diagram bandwidths{.title = "bus bandwidth over bytes", .unit = "GB/s"};
  for (const report::Line& line : times) bandwidths.lines.push_back(bandwidth_of(line, share));
  figure.diagrams.push_back(
      {.title = "time over bytes", .unit = "microseconds", .lines = std::move(times)});
  if (share > 0) figure.diagrams.push_back(std::move(bandwidths));
  if (!alone.empty())
    figure.diagrams.push_back({.title = "time over bytes of calls that are alone",
                               .unit = "microseconds",
                               .lines = std::move(alone)});
  return figure;
}

namespace {

/// The diagrams of the measurements of one collective.
void add_collective(report::Page& page, const std::vector<Measurement>& measurements) {
  const Measurement& first = measurements.front();
  std::vector<report::Line> lines, alone;
  std::vector<report::Taken> taken;
  for (const Measurement& m : measurements) {
    const std::string kind = kind_of(m);
    line_named(lines, kind)
        .points.push_back({.x = place_of(m.bytes()),
                           .y = m.median,
                           .low = m.lower,
                           .high = m.upper,
                           .note = m.algorithm});
    if (m.alone > 0)
      line_named(alone, kind).points.push_back({.x = place_of(m.bytes()), .y = m.alone});
    if (kind == lines.front().name) taken.push_back({place_of(m.bytes()), m.algorithm});
  }
  if (lines.size() == 1) lines.front().role = report::Role::subject;
  const report::HeatMap map = heat_map(measurements, lines);
  page.add(times_and_bandwidths(title_of(first), bus_share(first.cell.collective, first.ranks),
                                std::move(lines), std::move(alone), std::move(taken)));
  page.add(map);
}

}  // namespace

std::string chart_page(const std::vector<Measurement>& measurements, const report::Facts& facts) {
  std::vector<std::vector<Measurement>> collectives;  // those of one follow one another
  for (const Measurement& m : measurements) {
    if (collectives.empty() || collectives.back().front().cell.collective != m.cell.collective)
      collectives.emplace_back();
    collectives.back().push_back(m);
  }
  const Measurement& first = measurements.front();
  report::Page page{collectives.size() == 1
                        ? title_of(first)
                        : fmt::format("{} collectives, {} ranks", collectives.size(), first.ranks),
                    "Times of the slowest rank per call: medians over rounds, and as bands the "
                    "quartiles."};
  page.add_facts(facts);
  for (const std::vector<Measurement>& each : collectives) add_collective(page, each);
  return page.html();
}

}  // namespace capstan::perf
