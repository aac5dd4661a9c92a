// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "perf/compare/protocol.hpp"

namespace capstan::perf {
namespace {

/// Adds a check for each cell that was slower than the next larger one. Failed cells are skipped.
void add_growth_checks(std::span<const CellResult> cells, std::vector<CliffCheck>& checks) {
  constexpr double tolerance = 1.1;
  for (const CellResult& cell : cells) {
    const CellResult* next = nullptr;
    for (const CellResult& other : cells)
      if (other.subject == cell.subject && other.ranks == cell.ranks && other.size > cell.size &&
          (!next || other.size < next->size))
        next = &other;
    if (next && next->own.median > 0 && cell.own.median > next->own.median * tolerance)
      checks.push_back({.cell = &cell, .larger = next});
  }
}

/// Adds a check of every all-reduce against each pair of collectives that does the same.
void add_composition_checks(std::span<const CellResult> cells, std::vector<CliffCheck>& checks) {
  for (const CellResult& cell : cells)
    for (std::size_t parts = 0; parts < std::size(worker_protocol::parts_of_all_reduce); ++parts)
      if (cell.subject == Subject{Collective::all_reduce} && cell.own.median > 0)
        checks.push_back({.cell = &cell, .parts = parts});
}

std::string name_of_reference(const CliffCheck& check) {
  if (check.larger) return name_of(*check.larger);
  const auto& [first, second] = worker_protocol::parts_of_all_reduce[check.parts];
  return fmt::format("{} and {}", name_of(first), name_of(second));
}

/// "# all_reduce takes 0.41 to 0.93 times as long as reduce and broadcast in its place".
std::string parts_line(std::span<const CliffCheck> checks, std::size_t parts) {
  double least = 0, most = 0;
  std::string name;
  for (const CliffCheck& check : checks) {
    if (check.larger || check.parts != parts) continue;
    least = name.empty() ? check.ratio : std::min(least, check.ratio);
    most = std::max(most, check.ratio);
    name = name_of_reference(check);
  }
  if (name.empty()) return {};
  return fmt::format("# all_reduce takes {:.2f} to {:.2f} times as long as {} in its place\n",
                     least, most, name);
}

using Ratio = std::optional<double> (CellResult::*)() const;

using Cells = std::vector<const CellResult*>;

/// The geometric mean; 0 where there is no ratio.
double mean_of(const Cells& cells, Ratio ratio) {
  double sum = 0;
  int count = 0;
  for (const CellResult* cell : cells)
    if (const auto of_cell = (cell->*ratio)()) sum += std::log(*of_cell), ++count;
  return count > 0 ? std::exp(sum / count) : 0;
}

Summary::Apart apart_of(const Cells& cells) {
  return {.least = cells.front()->distance.mean(),
          .most = cells.back()->distance.mean(),
          .geometric_mean = mean_of(cells, &CellResult::ratio),
          .geometric_mean_alone = mean_of(cells, &CellResult::ratio_alone),
          .cells = cells.size(),
          .lost = static_cast<std::size_t>(std::ranges::count_if(cells, &CellResult::lost))};
}

/// A gap between two distances divides the cells.
std::vector<Summary::Apart> by_distance(Cells cells) {
  std::erase_if(cells, [](const CellResult* cell) {
    return !cell->distance.known() || cell->distance.changed();
  });
  std::ranges::sort(cells, {}, [](const CellResult* cell) { return cell->distance.mean(); });
  std::vector<Summary::Apart> all;
  Cells same;
  for (const CellResult* cell : cells) {
    if (!same.empty() && Distance::apart(same.front()->distance.mean(), cell->distance.mean()))
      all.push_back(apart_of(std::exchange(same, {})));
    same.push_back(cell);
  }
  if (!same.empty()) all.push_back(apart_of(same));
  return all;
}

/// "0.93 (mpich), alone 1.20 (openmpi)".
std::string ratios_of(const CellResult& cell) {
  std::string text;
  if (cell.ratio()) text = fmt::format("{:.2f} ({})", *cell.ratio(), cell.best()->worker);
  if (cell.ratio_alone())
    text += fmt::format("{}alone {:.2f} ({})", text.empty() ? "" : ", ", *cell.ratio_alone(),
                        cell.best_alone()->worker);
  return text;
}

nlohmann::json to_json(const Times& times) {
  nlohmann::json json{{"median_us", times.median},
                      {"min_us", times.least},
                      {"spread", times.spread},
                      {"times_us", times.rounds}};
  if (times.single)
    json["single_calls"] = {{"p50_us", times.single->p50},
                            {"p99_us", times.single->p99},
                            {"max_us", times.single->largest}};
  return json;
}

nlohmann::json to_json(const std::vector<CellResult::Peer>& peers) {
  nlohmann::json object = nlohmann::json::object();
  for (const CellResult::Peer& peer : peers) {
    object[peer.name] = to_json(peer.times);
    object[peer.name]["configuration"] = peer.worker;
    object[peer.name]["ratio"] = peer.ratio;
    object[peer.name]["ratio_spread"] = peer.ratio_spread;
    object[peer.name]["wrong"] = peer.wrong;
  }
  return object;
}

}  // namespace

std::string name_of(const CellResult& cell) {
  return fmt::format("{} of {} on {} ranks", name_of(cell.subject), short_size(cell.size),
                     cell.ranks);
}

std::vector<CliffCheck> check_cliffs(std::span<const CellResult> cells,
                                     const Remeasure& remeasure) {
  std::vector<CliffCheck> checks, measured;
  add_growth_checks(cells, checks);
  add_composition_checks(cells, checks);
  for (CliffCheck& check : checks) {
    check.ratio = remeasure(check).value_or(0);
    if (check.ratio > 0) measured.push_back(check);
  }
  return measured;
}

Summary summarize(const std::vector<CellResult>& cells, std::vector<CliffCheck> checks) {
  Cells all;
  for (const CellResult& cell : cells) all.push_back(&cell);
  Summary summary{.geometric_mean = mean_of(all, &CellResult::ratio),
                  .geometric_mean_alone = mean_of(all, &CellResult::ratio_alone),
                  .checks = std::move(checks)};
  summary.cells = cells.size();
  summary.distances = by_distance(all);
  for (const CellResult& cell : cells) {
    summary.moved += cell.distance.changed();
    summary.busy += cell.state.busy();
    if (cell.lost()) summary.lost.push_back(&cell);
    if (cell.ratio() && (!summary.worst || *cell.ratio() < *summary.worst->ratio()))
      summary.worst = &cell;
  }
  return summary;
}

Table cells_table(const std::vector<std::string>& peers, int width, bool percentiles) {
  std::vector<Column> columns{{"collective", "", 15}, {"ranks", "", 5, 9},  {"size", "", 5},
                              {"capstan", "(us)", 9}, {"spread", "", 6, 8}, {"bound", "(us)", 9, 6},
                              {"x bound", "", 7, 5}};
  for (const std::string& name : peers) columns.push_back({name, "(us)", 9, 3});
  columns.insert(columns.end(), {{"ratio", "", 6},
                                 {"spread", "", 6, 1},
                                 {"best peer", "", 12, 2},
                                 {"alone", "(us)", 9, 4},
                                 {"ratio", "(alone)", 7, 1},
                                 {"best peer", "(alone)", 12, 7}});
  if (percentiles)
    columns.insert(
        columns.end(),
        {{"p50", "(us)", 8, 2}, {"p99", "(us)", 8}, {"p50", "(peer)", 8, 2}, {"p99", "(peer)", 8}});
  return {std::move(columns), width};
}

namespace {

std::string number(double value) {
  return fmt::format("{:.2f}", value);
}

/// Ratio, its spread and the best peer; empty without one.
std::vector<std::string> ratio_values(std::optional<double> ratio, const CellResult::Peer* best) {
  if (!ratio) return {"", "", ""};
  return {number(*ratio), fmt::format("{:.0f}%", 100 * best->ratio_spread), best->worker};
}

std::optional<SingleCalls> single_calls_of(const CellResult::Peer* peer) {
  return peer ? peer->times.single : std::nullopt;
}

std::string doubts_about(const CellResult& cell) {
  std::string text;
  if (cell.wrong > 0) text += fmt::format("#! {} WRONG VALUES\n", cell.wrong);
  for (const CellResult::Peer& peer : cell.peers)
    if (peer.wrong > 0) text += fmt::format("#! {}: {} wrong\n", peer.worker, peer.wrong);
  if (cell.distance.changed())
    text += fmt::format("#! cores moved: a flag took {:.0f} ns before, {:.0f} after\n",
                        cell.distance.before, cell.distance.after);
  if (cell.state.busy()) text += fmt::format("#! {}\n", cell.state.text());
  return text;
}

}  // namespace

std::string cell_line(const Table& table, const CellResult& cell,
                      const std::vector<std::string>& peers) {
  std::vector<std::string> values{name_of(cell.subject),
                                  fmt::to_string(cell.ranks),
                                  short_size(cell.size),
                                  number(cell.own.median),
                                  fmt::format("{:.0f}%", 100 * cell.own.spread),
                                  number(cell.bound.median),
                                  number(cell.times_bound)};
  for (const std::string& name : peers) {
    const auto peer = std::ranges::find(cell.peers, name, &CellResult::Peer::name);
    values.push_back(peer == cell.peers.end() ? "-" : number(peer->times.median));
  }
  const auto in_a_row = ratio_values(cell.ratio(), cell.best());
  const auto alone = ratio_values(cell.ratio_alone(), cell.best_alone());
  values.insert(values.end(), in_a_row.begin(), in_a_row.end());
  values.insert(values.end(),
                {cell.ratio_alone() ? number(cell.alone.median) : "", alone[0], alone[2]});
  if (cell.own.single)
    for (const auto& single : {cell.own.single, single_calls_of(cell.best())})
      for (const double SingleCalls::* each : {&SingleCalls::p50, &SingleCalls::p99})
        values.push_back(single ? number(*single.*each) : "-");
  return table.line(values) + doubts_about(cell);
}

std::string text_of(const Summary& summary) {
  std::string text;
  if (summary.worst) {
    text += fmt::format("# ahead of the best peer {:.2f} times (geometric mean)\n",
                        summary.geometric_mean);
    if (summary.geometric_mean_alone > 0)
      text += fmt::format("# the same for calls that are alone: {:.2f} times\n",
                          summary.geometric_mean_alone);
    text += fmt::format("# worst: {}, {:.2f} times ({})\n", name_of(*summary.worst),
                        *summary.worst->ratio(), summary.worst->best()->worker);
    text += fmt::format("# cells lost: {}\n", summary.lost.size());
    for (const CellResult* cell : summary.lost)
      text += fmt::format("#   {}: {}{}{}{}\n", name_of(*cell), ratios_of(*cell),
                          cell->undecided() ? ", within the noise" : "",
                          cell->explanation.empty() ? "" : "; Capstan ran ", cell->explanation);
    for (const Summary::Apart& apart : summary.distances)
      text += fmt::format(
          "# cores {:.0f} to {:.0f} ns from each other: {:.2f} times, alone {:.2f}; {} of {} "
          "cells lost\n",
          apart.least, apart.most, apart.geometric_mean, apart.geometric_mean_alone, apart.lost,
          apart.cells);
    if (summary.moved > 0)
      text +=
          fmt::format("# cells during which cores moved: {} of {}\n", summary.moved, summary.cells);
    if (summary.busy > 0)
      text +=
          fmt::format("# cells measured while the machine was busy: {} of {}: they say little\n",
                      summary.busy, summary.cells);
  }
  for (std::size_t parts = 0; parts < std::size(worker_protocol::parts_of_all_reduce); ++parts)
    text += parts_line(summary.checks, parts);
  text +=
      fmt::format("# cliffs: {}\n", std::ranges::count_if(summary.checks, &CliffCheck::is_cliff));
  for (const CliffCheck& check : summary.checks)
    if (check.is_cliff())
      text += fmt::format("#   {} takes {:.2f} times as long as {}\n", name_of(*check.cell),
                          check.ratio, name_of_reference(check));
  return text;
}

nlohmann::json to_json(const std::vector<CellResult>& cells, const Summary& summary) {
  nlohmann::json rows = nlohmann::json::array();
  for (const CellResult& cell : cells) {
    rows.push_back({{"collective", name_of(cell.subject)},
                    {"ranks", cell.ranks},
                    {"bytes", cell.size.value()},
                    {"capstan", to_json(cell.own)},
                    {"bound", to_json(cell.bound)},
                    {"wrong", cell.wrong},
                    {"machine", to_json(cell.state)},
                    {"peers", to_json(cell.peers)}});
    rows.back()["capstan"]["explanation"] = cell.explanation;
    rows.back()["capstan"]["rounds"] = cell.rounds;
    if (cell.distance.known())
      rows.back()["distance_ns"] = {cell.distance.before, cell.distance.after};
    if (cell.times_bound > 0) rows.back()["times_bound"] = cell.times_bound;
    if (cell.ratio()) rows.back()["ratio"] = *cell.ratio();
    if (!cell.ratio_alone()) continue;
    rows.back()["alone"] = {{"capstan", to_json(cell.alone)},
                            {"peers", to_json(cell.peers_alone)},
                            {"ratio", *cell.ratio_alone()}};
  }
  nlohmann::json lost = nlohmann::json::array();
  for (const CellResult* cell : summary.lost) lost.push_back(name_of(*cell));
  nlohmann::json checks = nlohmann::json::array();
  for (const CliffCheck& check : summary.checks)
    checks.push_back({{"cell", name_of(*check.cell)},
                      {"reference", name_of_reference(check)},
                      {"ratio", check.ratio},
                      {"cliff", check.is_cliff()}});
  return {{"cells", rows},
          {"geometric_mean", summary.geometric_mean},
          {"geometric_mean_alone", summary.geometric_mean_alone},
          {"lost", lost},
          {"cliff_checks", checks}};
}

}  // namespace capstan::perf
