// SPDX-License-Identifier: Apache-2.0
#include "perf/report/page.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "perf/report/embedded.hpp"

namespace capstan::report {
namespace {

using nlohmann::json;

const char* name_of(Role role) {
  switch (role) {
    case Role::subject:
      return "subject";
    case Role::bound:
      return "bound";
    case Role::other:
      break;
  }
  return "other";
}

json to_json(const Line& line) {
  json points = json::array();
  for (const Point& point : line.points)
    points.push_back({{"x", point.x},
                      {"y", point.y},
                      {"low", point.low},
                      {"high", point.high},
                      {"note", point.note}});
  return {
      {"name", line.name}, {"role", name_of(line.role)}, {"shown", line.shown}, {"points", points}};
}

json to_json(const Diagram& diagram) {
  json lines = json::array();
  for (const Line& line : diagram.lines) lines.push_back(to_json(line));
  return {{"title", diagram.title}, {"unit", diagram.unit}, {"lines", lines}};
}

json to_json(const HeatMap::Row& row) {
  json cells = json::array();
  for (const auto& cell : row.cells)
    cells.push_back(cell ? json{{"text", cell->text}, {"shade", cell->shade}, {"note", cell->note}}
                         : json{});
  return {{"name", row.name}, {"cells", cells}};
}

json to_json(const Bars::Bar& bar) {
  json value{{"name", bar.name}, {"parts", bar.parts}, {"note", bar.note}};
  value["compared"] = bar.compared ? json(*bar.compared) : json{};
  return value;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string{c};
  return safe;
}

/// JSON for an element <script>: no "<" can end it. Bytes that are no UTF-8 are replaced.
std::string as_script(const json& document) {
  const std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) safe += c == '<' ? "\\u003c" : std::string{c};
  return safe;
}

}  // namespace

Page::Page(std::string title, std::string lead)
    : title_(std::move(title)),
      document_{{"title", title_},
                {"lead", std::move(lead)},
                {"facts", json::array()},
                {"parts", json::array()}} {}

void Page::add_fact(std::string name, std::string value) {
  document_["facts"].push_back({std::move(name), std::move(value)});
}

void Page::add_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  for (const auto& [name, value] : facts) add_fact(name, value);
}

void Page::add(const Figure& figure) {
  json diagrams = json::array(), taken = json::array();
  for (const Diagram& diagram : figure.diagrams) diagrams.push_back(to_json(diagram));
  for (const Taken& each : figure.taken) taken.push_back({{"x", each.x}, {"name", each.name}});
  document_["parts"].push_back(
      {{"kind", "figure"}, {"title", figure.title}, {"diagrams", diagrams}, {"taken", taken}});
}

void Page::add(const HeatMap& map) {
  json rows = json::array();
  for (const HeatMap::Row& row : map.rows) rows.push_back(to_json(row));
  document_["parts"].push_back({{"kind", "heat map"},
                                {"title", map.title},
                                {"legend", map.legend},
                                {"columns", map.columns},
                                {"rows", rows}});
}

void Page::add(const Bars& bars) {
  json values = json::array();
  for (const Bars::Bar& bar : bars.bars) values.push_back(to_json(bar));
  document_["parts"].push_back({{"kind", "bars"},
                                {"title", bars.title},
                                {"unit", bars.unit},
                                {"parts", bars.parts},
                                {"compared", bars.compared},
                                {"bars", values}});
}

void Page::add(const Table& table) {
  document_["parts"].push_back(
      {{"kind", "table"}, {"title", table.title}, {"head", table.head}, {"rows", table.rows}});
}

void Page::add(const Drawing& drawing) {
  document_["parts"].push_back(
      {{"kind", "drawing"}, {"title", drawing.title}, {"svg", drawing.svg}});
}

std::string Page::html() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main></main>\n"
      "<noscript>This page draws its diagrams by JavaScript, which is switched off.</noscript>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
      escaped(title_), embedded::page_css, as_script(document_), embedded::chart_js,
      embedded::page_js);
}

void require_charts(const std::string& option) {
  if (embedded::chart_js.empty())
    throw InvalidArgument(fmt::format(
        "{}: this program was built without Chart.js, which draws diagrams; install the package "
        "libjs-chart.js and build again",
        option));
}

}  // namespace capstan::report
